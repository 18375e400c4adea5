"""What `nvidia-smi dmon -s t` prints."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import FormatError
from gdrkit.formats.dmon import Traffic, parse_dmon

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
#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk  rxpci  txpci
#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz   MB/s   MB/s
 20260102   03:04:05      0     70     41      -      0      0      0      0   1593   1980     55     66
"""


def test_lines_of_every_gpu():
    assert parse_dmon(PLAIN) == (Traffic(0, 24105, 13), Traffic(1, None, None), Traffic(0, 24110, 12))


def test_columns_are_found_by_their_names():
    assert parse_dmon(DATED) == (Traffic(0, 55, 66),)


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
