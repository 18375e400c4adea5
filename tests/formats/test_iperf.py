"""The result of iperf, of version 2 or 3."""

from __future__ import annotations

import pytest

from gdrkit.formats.iperf import parse_iperf

# geerlingguy/raspberry-pi-pcie-devices, issue 647, with its last rows
IPERF3 = """\
Connecting to host 192.168.1.100, port 5201
[  5] local 192.168.1.101 port 36976 connected to 192.168.1.100 port 5201
[  7] local 192.168.1.101 port 36990 connected to 192.168.1.100 port 5201
[ ID] Interval           Transfer     Bitrate         Retr  Cwnd
[  5]   0.00-1.00   sec   217 MBytes  1.82 Gbits/sec    0   1.29 MBytes
[  7]   0.00-1.00   sec   223 MBytes  1.87 Gbits/sec    0   1.31 MBytes
[SUM]   0.00-1.00   sec   440 MBytes  3.69 Gbits/sec    0
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-15.00  sec  3.15 GBytes  1.80 Gbits/sec    0             sender
[  5]   0.00-15.01  sec  3.14 GBytes  1.80 Gbits/sec                  receiver
[SUM]   0.00-15.00  sec  6.40 GBytes  3.67 Gbits/sec    0             sender
[SUM]   0.00-15.01  sec  6.39 GBytes  3.66 Gbits/sec                  receiver
"""
IPERF2 = """\
Client connecting to 10.0.0.2, TCP port 5001
[  3] local 10.0.0.1 port 51522 connected with 10.0.0.2 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3]  0.0-10.0 sec  1.10 GBytes   941 Mbits/sec
"""


@pytest.mark.parametrize(
    ("text", "gbit_per_s"), [(IPERF3, [3.66]), (IPERF2, [0.941]), (IPERF3 * 2, [3.66] * 2)]
)
def test_the_row_of_the_whole_run_of_all_streams_is_the_result(text: str, gbit_per_s: list[float]):
    lines = text.splitlines()
    runs = parse_iperf(lines)
    assert [run.gbit_per_s for run in runs] == pytest.approx(gbit_per_s)
    assert all("0.0" in lines[run.at] for run in runs)


def test_rows_alone_are_a_run_and_other_text_is_none():
    assert len(parse_iperf(IPERF3.splitlines()[-1:])) == 1
    assert parse_iperf(["[  5] local 192.168.1.101 port 36976 connected", "[SUM]", ""]) == ()
