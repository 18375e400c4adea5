"""NCCL's levels, by the version that reads or prints them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.programs.nccl.settings import LEVELS, allows, gdr_level, path_type, printed_type


@pytest.mark.parametrize(
    ("value", "version", "level"),
    [
        ("SYS", "", "SYS"),
        ("5", "", "SYS"),
        ("4", "2.18.1", "SYS"),
        ("3", "", "PHB"),
        ("0", "", "LOC"),
        ("99", "", "SYS"),
        ("2x", "", "PXB"),
        ("ALL", "", None),
        ("NODE", "", None),
        ("sys", "", None),
        ("SYS ", "", None),
        ("-1", "", None),
        ("", "", None),
        ("P2C", "2.26.2", None),
        ("P2C", "2.27.5", "P2C"),
        ("C2C", "2.25.1", None),
        ("PXN", "2.11.4", None),
        ("PXN", "", "PXN"),
    ],
)
def test_levels_as_nccl_reads_them(value: str, version: str, level: str | None):
    assert gdr_level(value, version) == level


@given(st.text(), st.text())
def test_any_value_is_a_level_or_ignored(value: str, version: str):
    assert gdr_level(value, version) in (*LEVELS, None)


def test_node_of_nvidia_smi_is_phb_of_nccl():
    assert allows("PHB", path_type("NODE"))
    assert not allows("PXB", path_type("NODE"))
    assert allows("PIX", path_type("PIX"))
    assert not allows("LOC", path_type("PIX"))


@pytest.mark.parametrize(
    ("number", "version", "word"),
    [
        (6, "2.16.5", "PHB"),
        (7, "2.16.5", "SYS"),
        (8, "2.27.3", "PHB"),
        (7, "2.27.3", "P2C"),
        (7, "2.27.5", "PXN"),
        (8, "2.28.9", "PHB"),
        (3, "2.7.8", "PXB"),
        (7, "", ""),
        (99, "2.28.9", ""),
    ],
)
def test_numbers_in_a_log_depend_on_the_version(number: int, version: str, word: str):
    assert printed_type(number, version) == word
