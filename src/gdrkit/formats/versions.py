"""Version numbers for comparison."""

from __future__ import annotations

from gdrkit.formats.whole_number import whole_number


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.23.4-1+cuda12" is (2, 23, 4); () if it starts with no number.

    Only for versions of one product. For features of kernels, look at their symbols, not at their versions.
    """
    found = []
    for word in version.split("."):
        digits = word[: len(word) - len(word.lstrip("0123456789"))]
        number = whole_number(digits)
        if number is None:
            break
        found.append(number)
        if digits != word:
            break
    return tuple(found)
