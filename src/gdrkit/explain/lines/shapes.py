"""The shape of a line: what is left of it without its numbers, so that the lines of a log are alike."""

from __future__ import annotations

import functools

from gdrkit import catalogue
from gdrkit.formats.regex import regex
from gdrkit.programs import proofs

DIGITS = str.maketrans("123456789", "000000000")
_HEXADECIMAL = regex(r"0x[0-9a-fA-F]+")
_WORD_OF_DIGITS = regex(r"\b(?=[a-f]{0,15}0)[0-9a-f]{2,16}\b")
_RUN = regex(r"00+")


def digits_alike(text: str) -> str:
    """A text with every digit as 0, and every hexadecimal number as 0x0. Its lines stay lines."""
    return _HEXADECIMAL.sub("0x0", text.translate(DIGITS))


def shape(text: str) -> str:
    """A text with every number as 0."""
    return _RUN.sub("0", digits_alike(text))


def kind(line: str) -> str:
    """A shape with every hexadecimal number as 0, also one without 0x: no message has such a word."""
    return _WORD_OF_DIGITS.sub("0", line)


def may_be_message(line: str) -> bool:
    """Whether a line of this shape may have a message of the catalogue, or a proof of a path in use."""
    by_word, others = _constants()
    found = by_word.keys() & line.split()
    return any(constant in line for constant in others) or any(
        constant in line for word in found for constant in by_word[word]
    )


@functools.cache
def _constants() -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """The shapes of the strings that messages have, by a word that they have as well; and those without."""
    by_word: dict[str, list[str]] = {}
    others: dict[str, None] = {}
    for matcher in (catalogue.matcher(), proofs.matcher()):
        for word, constant in matcher.constants():
            if word:
                by_word.setdefault(shape(word), []).append(shape(constant))
            else:
                others[shape(constant)] = None
    return by_word, tuple(others)
