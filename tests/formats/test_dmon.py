"""The output of `nvidia-smi dmon -s t`."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.dmon import DmonTraffic, parse_dmon
from gdrkit.formats.errors import FormatError

PLAIN = """\
# gpu  rxpci  txpci
# Idx   MB/s   MB/s
    0  24105     13
    1      -      -
# gpu  rxpci  txpci
# Idx   MB/s   MB/s
    0  24110     12
"""
DATED = """\
#Date        Time         gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa  rxpci  txpci
#YYYYMMDD    HH:MM:SS     Idx      W      C      C      %      %      %      %      %      %   MB/s   MB/s
 20261120    22:10:29       0    111     48      -      0      0      0      0      0      0     55     66
"""
CSV = """\
#gpu, rxpci, txpci
#Idx, MB/s, MB/s
 0, 28, 4
"""


def test_lines_of_every_gpu_are_parsed():
    assert parse_dmon(PLAIN) == (
        DmonTraffic(0, 24105, 13),
        DmonTraffic(1, None, None),
        DmonTraffic(0, 24110, 12),
    )


def test_columns_are_found_by_their_names():
    assert parse_dmon(DATED) == (DmonTraffic(0, 55, 66),)
    assert parse_dmon(CSV) == (DmonTraffic(0, 28, 4),)


def test_a_cut_line_is_left_out():
    assert len(parse_dmon(PLAIN[:-8])) == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        "# gpu    pwr\n# Idx      W\n    0     70\n",
        PLAIN.partition("    0")[0],
    ],
)
def test_other_text_is_refused(text: str):
    with pytest.raises(FormatError):
        parse_dmon(text)


@given(st.text() | st.lists(st.sampled_from((PLAIN + DATED).splitlines())).map("\n".join))
def test_any_text_is_a_table_or_refused(text: str):
    with contextlib.suppress(FormatError):
        assert parse_dmon(text)
