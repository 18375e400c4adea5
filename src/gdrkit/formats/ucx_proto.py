"""The tables of UCX_PROTO_INFO: which protocol and transport UCX chose for an operation, memory and size.

Four layouts are read. 1.14 has a title in one cell; 1.15 to 1.21 one of two cells; from 1.22 on the
configuration and the operation have a row each, and the columns have heads. With UCX_PROTO_INFO=used, from
1.21 on, each row has a count. Pasted tables may lack prefixes, borders and outer bars.

Source: openucx/ucx src/ucp/proto/proto_debug.c, ucp_proto_select_write_info() and ucp_proto_table_row_...(),
at the tags from v1.14.1 to v1.22.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.regex import regex


class ProtoRow(Struct, frozen=True):
    """What UCX chose for sizes from `low` to `high` bytes; None: without an end."""

    line: int
    low: int
    high: int | None
    description: str
    config: str  # transports, devices and their shares
    count: int | None = None  # operations that used it; None where the table has no counts


class ProtoTable(Struct, frozen=True, kw_only=True):
    """One combination of endpoint, operation and memory."""

    line: int  # of its title
    process: str  # host:pid:tid, "" if the text does not show it
    context: str  # its name in the program
    reach: str  # self, intra-node or inter-node; "" in 1.14
    operation: str
    attributes: tuple[str, ...]
    local: str  # the memory on this side, as `cuda/GPU0` or `host memory`
    remote: str  # "" where the other side's memory is not known to this one
    rows: tuple[ProtoRow, ...]


_PREFIX = regex(r"\[\d+\.\d+\] +\[(?P<process>[^\]\s]{1,200})\]")
_CONFIGURATION = regex(
    r"(?:(?P<context>.{0,200}?)(?<! ) ++)?(?:(?P<reach>self|intra-node|inter-node) cfg#\d+|ep_cfg\[\d+\])"
)
_TITLE = regex(
    r"(?P<operation>[a-z][\w *-]{2,80}?)(?:\((?P<attributes>[\w, -]{0,80})\))?"
    r" (?:from|into|of) (?P<local>\S.{0,60}?)(?: (?:to|from|with) (?P<remote>\S.{0,60}))?"
)
_SIZE = r"\d+[KMGT]?"
_RANGE = regex(rf"(?:(?P<count>\d+) +)?(?P<low>{_SIZE})(?:\.\.(?P<high>{_SIZE}|inf))?")
_UNITS = {"K": 10, "M": 20, "G": 30, "T": 40}
_BORDER = regex(r"\+-[-+]*")


def read_tables(text: str) -> tuple[ProtoTable, ...]:
    """The tables in a text that may hold anything else, by the line of their titles. Processes that print
    into each other are kept apart by their prefix. Takes time proportional to the text."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), 1):
        if "|" in line or "cfg" in line or ".." in line:
            reader.read(number, line)
    return tuple(sorted(reader.tables(), key=lambda table: table.line))


class _OpenTable(Struct):
    """A table whose rows are still being read. `title` is None until its operation was seen."""

    line: int
    process: str
    context: str
    reach: str
    title: re.Match[str] | None
    rows: list[ProtoRow]


class _Reader:
    def __init__(self) -> None:
        self.open: dict[str, _OpenTable] = {}
        self.closed: list[_OpenTable] = []

    def read(self, number: int, line: str) -> None:
        found = _PREFIX.search(line)
        process = found["process"] if found else ""
        cells = _cells(line[found.end() :] if found else line)
        configuration = _CONFIGURATION.fullmatch(cells[0]) if cells else None
        if configuration is not None:
            self._begin(number, process, configuration, cells[1:])
        elif (table := self.open.get(process)) is not None:
            if table.title is None:
                table.title = _TITLE.fullmatch(cells[0].replace("()", "")) if len(cells) == 1 else None
                if table.title is None:
                    del self.open[process]
            elif (row := _row(number, cells)) is not None:
                table.rows.append(row)

    def _begin(self, number: int, process: str, found: re.Match[str], rest: list[str]) -> None:
        before = self.open.pop(process, None)
        if before is not None:
            self.closed.append(before)
        title = _TITLE.fullmatch(rest[0].replace("()", "")) if rest else None
        if rest and title is None:
            return
        self.open[process] = _OpenTable(
            number, process, found["context"] or "", found["reach"] or "", title, []
        )

    def tables(self) -> Iterable[ProtoTable]:
        for one in (*self.closed, *self.open.values()):
            if one.title is not None and one.rows:
                yield ProtoTable(
                    line=one.line,
                    process=one.process,
                    context=one.context,
                    reach=one.reach,
                    operation=one.title["operation"].strip(),
                    attributes=tuple(re.findall(r"[\w -]*\w", one.title["attributes"] or "")),
                    local=one.title["local"].strip(),
                    remote=(one.title["remote"] or "").strip(),
                    rows=tuple(one.rows),
                )


def _cells(line: str) -> list[str]:
    """The cells of a row, without those outside the outer bars. A row that lost its outer bars starts with
    its first cell; one that lost all bars has cells that two blanks or more part."""
    parts = [part.strip() for part in line.split("|")]
    if len(parts) == 1:
        parts = [part.strip() for part in re.split(r" {2,}", line.strip())]
    elif not (_CONFIGURATION.fullmatch(parts[0]) or _RANGE.fullmatch(parts[0])):
        parts = parts[1:]
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [part for part in parts if not _BORDER.fullmatch(part)]


_MOST_DIGITS = 20
"""Digits of a number that are read: those of 2**64."""


def _row(number: int, cells: list[str]) -> ProtoRow | None:
    """A row of a table; None for heads and for what is none. A row without transports is complete: a fetch
    of no data has none."""
    count = None
    if len(cells) >= 3 and cells[0].isdecimal() and _RANGE.fullmatch(cells[1]):
        count, cells = int(cells[0][:_MOST_DIGITS]), cells[1:]
    found = _RANGE.fullmatch(cells[0]) if len(cells) >= 2 else None
    if found is None:
        return None
    if found["count"] is not None:
        count = int(found["count"][:_MOST_DIGITS])
    high = found["high"]
    low = _bytes(found["low"])
    return ProtoRow(
        line=number,
        low=low,
        high=None if high == "inf" else _bytes(high) if high else low,
        description=cells[1],
        config=cells[2] if len(cells) > 2 else "",
        count=count,
    )


def _bytes(text: str) -> int:
    """Source: ucs_memunits_to_str() writes exact multiples as 512K, 4M."""
    shift = _UNITS.get(text[-1], 0)
    return int(text.rstrip("KMGT")[:_MOST_DIGITS]) << shift
