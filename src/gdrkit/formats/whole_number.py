"""Whole numbers in text that anybody may have written."""

from __future__ import annotations

import re

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


def integer(value: str) -> int | None:
    """An integer parameter as NCCL reads it, by strtoll with base 0; None if it does not start with a digit.

    Words give None because versions differ on whether `false` is 0 or the default: src/misc/param.cc.
    """
    match = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", value)
    if match is None:
        return None
    digits = match[2]
    if len(digits) > MOST_DIGITS:  # strtoll() fails with ERANGE
        return None
    base = 16 if digits[:2] in ("0x", "0X") else 8 if digits.startswith("0") else 10
    return int(match[1] + digits, base)
