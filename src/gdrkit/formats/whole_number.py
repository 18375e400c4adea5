"""Whole numbers in text that anybody may have written."""

from __future__ import annotations

MOST_DIGITS = 20
"""A number of 64 bits has no more."""

_HEX = frozenset("0123456789abcdefABCDEF")


def whole_number(text: str) -> int | None:
    """The number that ASCII digits, and nothing else, state; None for any other text.

    str.isdigit() alone is not enough: `²` has it and int() refuses it, and int() refuses 4,301 digits."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdigit() else None


def hex_number(text: str) -> int | None:
    """As `whole_number`, for at most 16 hexadecimal digits that may follow 0x."""
    digits = text.removeprefix("0x")
    return int(digits, 16) if 0 < len(digits) <= 16 and _HEX.issuperset(digits) else None


def signed_number(text: str) -> int | None:
    """As `whole_number`, for a number that may have a minus."""
    number = whole_number(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number
