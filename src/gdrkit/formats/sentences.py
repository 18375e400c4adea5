"""Whether a line reads like something that a person wrote, and not like a program's output."""

from __future__ import annotations

import re

ENGLISH = {
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "can", "could", "did", "do", "does", "for",
    "from", "gives", "had", "has", "have", "i", "if", "in", "is", "it", "its", "me", "my", "no", "not",
    "of", "on", "or", "our", "says", "shows", "so", "that", "the", "then", "there", "they", "this", "to",
    "was", "we", "were", "what", "when", "which", "will", "with", "without", "would", "you", "your",
    "returns", "fails", "works", "lists", "prints", "reports", "outputs", "only",
}  # fmt: skip


def has_words_of_others(text: str) -> bool:
    """Whether a text has Chinese, Japanese or Korean words, which no command has: a sentence about it."""
    return not text.isascii() and re.search("[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]", text) is not None


def is_sentence(text: str) -> bool:
    """Whether an unrecognized line reads like something that a person wrote."""
    words = text.lower().split()
    english = sum(word.strip(".,;:!?'\"()") in ENGLISH for word in words)
    return english >= 2 or (english == 1 and re.search(r"[.?!:][\"')]?$", text.strip()) is not None)
