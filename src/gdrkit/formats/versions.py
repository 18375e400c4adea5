"""Version numbers, compared number by number."""

from __future__ import annotations


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.23.4-1+cuda12" is (2, 23, 4); () if it starts with no number.

    Only for versions of one product. Kernels and their features are judged by symbols, never by this.
    """
    found = []
    for word in version.split("."):
        digits = word[: len(word) - len(word.lstrip("0123456789"))]
        if not digits:
            break
        found.append(int(digits))
        if digits != word:
            break
    return tuple(found)
