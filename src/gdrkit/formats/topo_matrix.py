"""The matrix of `nvidia-smi topo -m`.

Source of the layout: output of drivers 384 to 595. The header is underlined with escape codes even without a
terminal. It has the names of NICs up to about driver 515, since then NIC0 with a legend below. Pasted text
has blanks instead of tabs; since no name and no cell contains a blank, both are parsed in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.errors import FormatError


class MatrixRow(Struct, frozen=True):
    """The columns to the right of a row's cells. Empty: not printed, or N/A."""

    cpu_affinity: str = ""  # "0-31,64-95"
    numa_affinity: str = ""  # "0", "0-1"


class Matrix(Struct, frozen=True):
    """The distances between devices."""

    names: tuple[str, ...]  # GPU0, GPU1, mlx5_0: NICs by device name, if there is a legend
    cells: dict[tuple[str, str], str]  # X, SYS, NODE, PHB, PXB, PIX, NV18
    rows: dict[str, MatrixRow]


_CELL = re.compile(r"X|SYS|SOC|NODE|PHB|PXB|PIX|NV\d{1,2}|C2C|N/A")
_OLD_WORDS = {"SOC": "SYS"}  # until driver 387: "the SMP link between CPU sockets (e.g. QPI)"
MAX_DEVICES = 256
"""Sixteen times the GPUs and NICs of the largest node."""


def parse(text: str) -> Matrix:
    """The matrix, with NIC0 replaced by its device name in the legend. Raises FormatError if there is none.

    Also raises FormatError for cut or missing rows, which make the number of columns uncertain."""
    lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", text).splitlines()
    start = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    if start is None:
        raise FormatError("no matrix in the output of nvidia-smi topo -m")
    columns, extras = _header(lines[start])
    legend = _legend(lines)
    names = tuple(legend.get(column, column) for column in columns)
    if len(set(names)) < len(names) or len(names) > MAX_DEVICES:
        raise FormatError("two columns of nvidia-smi topo -m have the same name")
    cells: dict[tuple[str, str], str] = {}
    rows: dict[str, MatrixRow] = {}
    for line in lines[start + 1 :]:
        name, *words = line.split() or [""]
        if name not in columns:
            if name:
                break
            continue
        values = words[: len(columns)]
        if len(values) < len(columns) or not all(map(_CELL.fullmatch, values)):
            raise FormatError(f"row {name} of nvidia-smi topo -m is cut")
        row = legend.get(name, name)
        cells |= {(row, other): _OLD_WORDS.get(v, v) for other, v in zip(names, values, strict=True)}
        rows[row] = _row(extras, words[len(columns) :])
    if len(rows) < len(columns):
        raise FormatError(f"the output of nvidia-smi topo -m is cut: {len(rows)} of {len(columns)} rows")
    return Matrix(names, cells, rows)


def _is_header(line: str) -> bool:
    words = line.split()
    return words[:1] == ["GPU0"] and "X" not in words


def _header(line: str) -> tuple[list[str], list[str]]:
    """The names of devices, and of the columns after them."""
    devices, affinity, rest = line.partition("CPU Affinity")
    return devices.split(), [affinity] * bool(affinity) + re.findall(r"GPU NUMA ID|NUMA Affinity", rest)


def _row(extras: list[str], words: list[str]) -> MatrixRow:
    if len(words) != len(extras):  # rows of NICs have empty ones
        return MatrixRow()
    known = {key: word for key, word in zip(extras, words, strict=True) if word != "N/A"}
    return MatrixRow(known.get("CPU Affinity", ""), known.get("NUMA Affinity", ""))


def _legend(lines: Iterable[str]) -> dict[str, str]:
    """The device names in lines such as `  NIC0: mlx5_0` below `NIC Legend:`."""
    found = (re.fullmatch(r"\s*(NIC\d+): (\S+)\s*", line) for line in lines)
    return {match[1]: match[2] for match in found if match}
