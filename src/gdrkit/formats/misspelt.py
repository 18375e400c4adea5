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
