"""Numbers in text that anybody may have written: digits of ASCII, and not too many."""

import pytest

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import hex_number, signed_number, whole_number

NONE = ("", "-", "--1", "²", "٣", "1_0", " 1", "1\n", "0x1", "1.0", "1" * 21, "1" * 5000)


@pytest.mark.parametrize("text", [*NONE, "-1"])
def test_what_is_no_whole_number(text):
    assert whole_number(text) is None


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_signed_number(text):
    assert signed_number(text) is None


@pytest.mark.parametrize("text", ["", "0x", "zz", "-0x1", "٣", "0x0x1", "f" * 17, "f" * 6000])
def test_what_is_no_hexadecimal_number(text):
    assert hex_number(text) is None


def test_numbers_are_read():
    assert (whole_number("007"), whole_number(str(2**64 - 1))) == (7, 2**64 - 1)
    assert (signed_number("-1"), signed_number("12")) == (-1, 12)
    assert (hex_number("0x10de"), hex_number("FFFFFFFFFFFFFFFF")) == (0x10DE, 2**64 - 1)


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b'{"a": 1', b"1" * 5000, b'"\\ud800"', b"[1]"]
)
def test_what_is_no_json_object(data):
    """Among others UTF-8 that is not valid, and more brackets than the decoder's stack takes."""
    with pytest.raises(FormatError):
        json_text.decode(data, dict)
