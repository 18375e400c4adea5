"""Sizes as they are written for `gdr bench`."""

from __future__ import annotations

import argparse

import pytest

from gdrkit.cli.bench import sizes_of


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1", (1,)),
        ("4096,1", (1, 4096)),
        ("64K", (1 << 16,)),
        ("3m", (3 << 20,)),
        ("1G,1024M,1048576K", (1 << 30,)),
        ("16G", (16 << 30,)),
    ],
)
def test_a_size_has_a_unit_or_is_in_bytes(text: str, sizes: tuple[int, ...]):
    assert sizes_of(text) == sizes


@pytest.mark.parametrize("text", ["0", "17G", "17179869185", "1T", "-1", "", "1,", "1.5G"])
def test_a_size_out_of_range_or_of_another_form_is_refused(text: str):
    with pytest.raises(argparse.ArgumentTypeError):
        sizes_of(text)
