"""The matrix of `nvidia-smi topo -m`, also as pasted into a longer text.

Source of the layout: output of drivers 384 to 595. The header is underlined with escape codes even without a
terminal. It has the names of NICs up to about driver 515, since then NIC0 with a legend below. No name and
no cell contains a blank, and no cell is the beginning of another one, so blanks between cells do not matter.
In pastes lines are quoted, have the prefix of a log, are broken at a terminal's width or are rows of a
Markdown table; the header, the rows of NICs, and the legend are often left out.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex


class MatrixRow(Struct, frozen=True):
    """The columns to the right of a row's cells. Empty: not printed, or N/A."""

    cpu_affinity: str = ""  # "0-31,64-95"
    numa_affinity: str = ""  # "0", "0-1"
    gpu_numa_id: str = ""  # of the GPU's own memory, if the processor sees it as a NUMA node


class Matrix(Struct, frozen=True):
    """The distances between devices. A pair that is shown in neither row has no cell."""

    names: tuple[str, ...]  # GPU0, GPU1, mlx5_0: NICs by device name, if there is a legend
    cells: dict[tuple[str, str], str]  # X, SYS, NODE, PHB, PXB, PIX, NV18
    rows: dict[str, MatrixRow]
    notes: tuple[str, ...] = ()  # what the text leaves out


MAX_DEVICES = 256
"""Sixteen times the GPUs and NICs of the largest node."""
LINE_CHARACTERS = 4096
"""Twice a row of 256 devices."""
CONTINUED = 64
"""Into how many lines a row may be broken."""
PLACES, LINES, CHARACTERS = 16, 2048, 1 << 19
"""In how many places of a text a matrix is looked for, and how much is read from there: a matrix of 256
devices has 512 KiB."""

_WORDS = r"SYS|SOC|NODE|PHB|PXB|PIX|NV\d{1,2}|C2C|N/A|X(?![\w.-]*[a-z])"
_CELL = regex(rf"[ \t]*({_WORDS})")
_GPU = regex(r"GPU\d{1,4}")
_NUMBERED = regex(r"[A-Za-z][\w.-]{0,58}\d[\w.-]{0,3}")
_ROW = regex(rf"(?<![\w.-])([A-Za-z][\w.-]{{0,62}})[ \t]+(?=(?:{_WORDS})(?:[ \tA-Z]|$))")
_HEADER = regex(rf"(?<![\w.-])GPU0(?=[ \t]*$|[ \t]+(?![ \t]|(?:{_WORDS})(?:[ \t]|$))|GPU1)")
_LEGEND = regex(r"(?<![\w.-])(NIC\d{1,4}): (\S{1,63})[ \t]*$")
_ACCESS = regex(r"(?<![\w.-])GPU0[ \t]+X[ \t]+(?:OK|CNS|GNS|TNS|NS|DR|U)\b")
_FIRST = frozenset(("GPU0",))
_OLD_WORDS = {"SOC": "SYS"}  # until driver 387: "the SMP link between CPU sockets (e.g. QPI)"


class _MatrixRows(Struct):
    """What was read of one matrix: its columns, and the cells and further words of each row."""

    columns: list[str]
    extras: list[str]
    rows: dict[str, tuple[list[str], list[str]]]
    end: int  # the line after its last one
    has_header: bool = True


def parse(text: str) -> Matrix:
    """The first matrix of a text, with NIC0 replaced by its device name in the legend. Raises FormatError
    if there is none. Rows that are cut are left out."""
    found = _first(text)
    if found is None:
        raise FormatError("no matrix in the output of nvidia-smi topo -m")
    lines, table = found
    if not table.rows:
        other = any(map(_ACCESS.search, lines[1 : len(table.columns) + 2]))
        raise FormatError(
            "this matrix is that of nvidia-smi topo -p2p; gdr topo reads that of nvidia-smi topo -m"
            if other
            else "the output of nvidia-smi topo -m is cut: no whole row"
        )
    legend = _legend(lines[table.end :])
    names = tuple(legend.get(column, column) for column in table.columns)
    if len(set(names)) < len(names):
        raise FormatError("two columns of nvidia-smi topo -m have the same name")
    cells: dict[tuple[str, str], str] = {}
    for row, (values, _) in table.rows.items():
        one = legend.get(row, row)
        cells |= {(one, other): _OLD_WORDS.get(v, v) for other, v in zip(names, values, strict=True)}
    for (first, second), cell in tuple(cells.items()):
        cells.setdefault((second, first), cell)
    return Matrix(
        names,
        cells,
        {legend.get(row, row): _row(table.extras, words) for row, (_, words) in table.rows.items()},
        tuple(_notes(table, lines)),
    )


def has_matrix(text: str) -> bool:
    """Whether a text shows a matrix, if only its header. Linear in its length."""
    return _first(text) is not None


def _plain(line: str) -> str:
    """A line without escape codes, quotation marks, and the marks of Markdown."""
    line = re.sub(r"\x1b\[[0-9;]{0,16}[mK]", "", line[:LINE_CHARACTERS])
    if "&" in line:
        import html

        line = html.unescape(line)
    line = re.sub(r"[|*`\xa0]", " ", re.sub(r"^(?:[ \t]{0,8}>)+ ?", "", line))
    return "" if set(line) <= set(" \t-:") else line


# -- tables ----------------------------------------------------------------------------------------


def _first(text: str) -> tuple[list[str], _MatrixRows] | None:
    """The lines from the first table on, and that table: the first with a whole row, else the first with a
    header."""
    if "GPU0" not in text:
        return None
    lines = text.splitlines()
    places = [index for index, line in enumerate(lines) if "GPU0" in line]
    after, empty, plain = 0, None, functools.cache(_plain)  # places may overlap
    for start in places[:PLACES]:
        if start < after:
            continue  # a row of a table that was not whole
        here = _from(lines, start, plain)
        table = _table(here)
        if table.rows:
            return here, table
        if table.columns and empty is None:
            empty = here, table
        after = start + table.end
    return empty


def _from(lines: list[str], start: int, plain: Callable[[str], str]) -> list[str]:
    """The plain lines from a place on, as many as a matrix may have."""
    found: list[str] = []
    rest = CHARACTERS
    for line in islice(lines, start, start + LINES):
        rest -= min(len(line), LINE_CHARACTERS) + 1
        if rest < 0 and found:
            break
        found.append(plain(line))
    return found


def _table(lines: list[str]) -> _MatrixRows:
    """The table that begins in the first line, if one does; broken lines are joined with or without a
    blank."""
    found = _HEADER.search(lines[0])
    if found is not None:
        tables = [_below_header(lines, found.start(), glue) for glue in ("", " ")]
        return max(tables, key=lambda table: len(table.rows))
    return _headless(lines) if _starts(lines[0], _FIRST) is not None else _MatrixRows([], [], {}, 1)


def _below_header(lines: list[str], column: int, glue: str) -> _MatrixRows:
    header, index = lines[0][column:], 1
    while index < min(CONTINUED, len(lines)) and _starts(lines[index], _FIRST) is None:
        if lines[index].strip():
            if _HEADER.search(lines[index]):
                break
            header += glue + lines[index]
        index += 1
    columns, extras = _columns(header)
    table = _MatrixRows(columns, extras, {}, index + 1)
    if not columns or len(columns) + len(extras) < 2 or len(columns) > MAX_DEVICES:
        return _MatrixRows([], [], {}, 1)
    known = frozenset(columns)
    while index < len(lines):
        begins = _starts(lines[index], known)
        if begins is None:
            if lines[index].strip():
                break
            index += 1
            continue
        name, rest = begins
        index += 1
        until = min(index + CONTINUED, len(lines))
        while index < until and _continues(lines[index], known):
            rest += glue + lines[index]
            index += 1
        cells, words = _cells(rest, len(columns))
        if name in table.rows or not _fits(columns.index(name), cells):
            break
        if len(cells) == len(columns):
            table.rows[name] = cells, words
        table.end = index
    return table


def _headless(lines: list[str]) -> _MatrixRows:
    """Rows without a header. GPUs come first; further columns are NICs, unless they have NVLink."""
    rows: dict[str, tuple[list[str], list[str]]] = {}
    index = 0
    while index < len(lines) and ((begins := _starts(lines[index], None)) or not lines[index].strip()):
        if begins is not None:
            cells, words = _cells(begins[1], MAX_DEVICES)
            if begins[0] in rows or not _fits(len(rows), cells) or any(map(str.isalpha, words[:1])):
                break
            rows[begins[0]] = cells, words
        index += 1
    count = max((len(cells) for cells, _ in rows.values()), default=0)
    rows = {name: row for name, row in rows.items() if len(row[0]) == count}
    names, gpus = list(rows), sum(_GPU.fullmatch(name) is not None for name in rows)
    for column in range(len(names), count):
        linked = any(cells[column].startswith("NV") for cells, _ in rows.values())
        gpus += linked
        names.append(f"GPU{column}" if linked else f"NIC{column - gpus}")
    return _MatrixRows(
        names, ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"], rows, index, has_header=False
    )


def _fits(column: int, cells: list[str]) -> bool:
    """Whether these can be the cells of this column's device: its distance to itself is X, if it is shown.
    Where a cell was lost, it is in another place."""
    own = [index for index, word in enumerate(cells) if word == "X"]
    return own == ([column] if column < len(cells) else [])


def _starts(line: str, names: frozenset[str] | None) -> tuple[str, str] | None:
    """The name at the beginning of a row, after any prefix, and the text after it."""
    for found in _ROW.finditer(line):
        name = found[1]
        if _NUMBERED.fullmatch(name) if names is None else name in names:
            return name, line[found.end() :]
    return None


def _continues(line: str, names: frozenset[str]) -> bool:
    """Whether a line belongs to a row that is broken before it: it begins no row, and has only cells and
    affinities."""
    if _starts(line, names) is not None or not line.strip() or "Legend" in line:
        return False
    return re.fullmatch(r"[\sA-Z0-9/,-]*", line) is not None


def _columns(header: str) -> tuple[list[str], list[str]]:
    """The names of devices, and of the columns after them; ([], []) for any other line."""
    devices, affinity, rest = header.partition("CPU Affinity")
    words = re.sub(r"(?<=\d)(?=(?:GPU|NIC)\d)", " ", devices).split()
    if not all(map(_NUMBERED.fullmatch, words)):
        words = []
    return words, ["CPU Affinity"] * bool(affinity) + re.findall(r"GPU NUMA ID|NUMA Affinity", rest)


def _cells(text: str, most: int) -> tuple[list[str], list[str]]:
    """At most so many cells from the beginning of a text, and the words after them."""
    cells: list[str] = []
    position = 0
    while len(cells) < most and (found := _CELL.match(text, position)) is not None:
        cells.append(found[1])
        position = found.end()
    return cells, text[position:].split()


def _row(extras: list[str], words: list[str]) -> MatrixRow:
    if len(words) != len(extras):  # rows of NICs have empty ones
        return MatrixRow()
    known = {key: word for key, word in zip(extras, words, strict=True) if word != "N/A"}
    return MatrixRow(*(known.get(key, "") for key in ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")))


def _legend(lines: list[str]) -> dict[str, str]:
    """The device names in lines such as `  NIC0: mlx5_0` below `NIC Legend:`."""
    found = (match for line in lines if (match := _LEGEND.search(line)))
    names: dict[str, str] = {}
    for match in found:
        if match[1] in names:
            break  # the legend of another matrix
        names[match[1]] = match[2]
    return names


def _notes(table: _MatrixRows, lines: list[str]) -> Iterator[str]:
    missing = [name for name in table.columns if name not in table.rows]
    gpus = [name for name in missing if _GPU.fullmatch(name)]
    if gpus:
        yield f"the text does not show the rows of {', '.join(gpus)}"
    elif missing:
        yield "the text does not show the rows of NICs"
    if not table.has_header:
        yield "the text does not show the header: columns after those of GPUs are taken for NICs"
    if (more := _first("\n".join(lines[table.end :]))) is not None and more[1].rows:
        yield "the text has several matrices; this is the first"
