"""What a misspelt word was meant to be."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 100
"""Characters of a word that are compared: what is compared with a longer one takes time for nothing."""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """`, did you mean 'json'?` if one of the words resembles this one; else ""."""
    from difflib import get_close_matches

    close = get_close_matches(word[:LONGEST], list(words), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def is_slip(word: str, right: str) -> bool:
    """Whether a word is another one with one letter wrong, missing or too many, or two of them swapped."""
    longer, shorter = (word, right) if len(word) > len(right) else (right, word)
    if len(longer) - len(shorter) == 1:
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    wrong = [at for at, letters in enumerate(zip(longer, shorter, strict=False)) if len(set(letters)) > 1]
    if len(longer) != len(shorter) or not 0 < len(wrong) <= 2:
        return False
    first, last = wrong[0], wrong[-1]
    swapped = last == first + 1 and word[first] + word[last] == right[last] + right[first]
    return len(wrong) == 1 or swapped
