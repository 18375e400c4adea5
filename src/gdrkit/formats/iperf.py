"""The result of iperf, of version 2 or 3: the row of a whole run.

Source: esnet/iperf src/iperf_locale.c, report_bw_format and report_sum_bw_format; iperf2 src/Locale.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.regex import regex

ROW = regex(
    r"\s*\[ *(?P<stream>SUM|\d{1,4})\] +0\.0{1,4}- *(?P<end>\d{1,6}\.\d{1,4}) +sec +[\d.]{1,8} +[KMGT]?Bytes"
    r" +(?P<rate>[\d.]{1,8}) +(?P<unit>[KMGT]?)bits/sec(?P<rest>.{0,80})$"
)
BEGIN = regex(
    r"\s*(?:Connecting to host|Client connecting to|Server listening on|Accepted connection from) "
)
_GBIT = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}


class Iperf(Struct, frozen=True):
    """The rate of a run, over all its streams."""

    gbit_per_s: float
    at: int  # the position of its line among those that were read


def parse_iperf(lines: Iterable[str]) -> tuple[Iperf, ...]:
    """The runs in some lines, in order. The row of a whole run begins at 0 and ends last; that of all
    streams, and of what was received, counts before others."""
    runs: list[dict[int, re.Match[str]]] = [{}]
    for at, line in enumerate(lines):
        if BEGIN.match(line):
            runs.append({})
        elif found := ROW.match(line):
            runs[-1][at] = found
    return tuple(_whole(rows) for rows in runs if rows)


def _whole(rows: dict[int, re.Match[str]]) -> Iperf:
    at, row = max(rows.items(), key=lambda one: _rank(one[1]))
    return Iperf(float(row["rate"]) * _GBIT[row["unit"]], at)


def _rank(row: re.Match[str]) -> tuple[float, bool, bool]:
    """iperf3 measures sender and receiver for times that differ by less than a second."""
    return round(float(row["end"])), row["stream"] == "SUM", "receiver" in row["rest"]
