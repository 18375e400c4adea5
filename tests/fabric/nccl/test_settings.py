"""NCCL's variables as each release reads them."""

from __future__ import annotations

import pytest

from gdrkit.fabric.nccl.settings import settings
from gdrkit.programs.nccl.releases import release


@pytest.mark.parametrize(
    ("version", "value", "read", "ignored"),
    [
        ("2.31.2", "yes", 0, ["a word is read as 0"]),
        ("2.32.3", "yes", -2, ["a word is ignored"]),
        ("2.32.3", "", -2, []),
        ("2.32.3", "1", 1, []),
        ("2.32.3", "1x", 1, []),
    ],
)
def test_a_word_for_a_number_is_zero_up_to_2_31_and_ignored_since(version, value, read, ignored):
    found = settings(release(version), {"NCCL_NET_GDR_READ": value})

    assert found.gdr_read == read
    assert [one.why for one in found.ignored] == ignored


def test_the_variable_for_partitions_is_read_by_2_30_7_and_2_31_alone():
    given = {"NCCL_NET_GDR_MLOPART": "1"}

    assert [settings(release(one), given).gdr_mlopart for one in ("2.30.7", "2.31.2", "2.32.3")] == [1, 1, 0]
