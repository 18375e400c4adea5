"""What topologies show: GPUs that are far from their NIC in `nvidia-smi topo -m`, or no NIC at all; NICs
without GPUDirect RDMA in what NCCL wrote to NCCL_TOPO_DUMP_FILE."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdrkit.explain.explanation import FAR_AWAY, STATE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import MAY_SHOW, Reading
from gdrkit.facts.cable_halves import is_of_a_spark
from gdrkit.formats import topo_matrix
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.messages.verbs_failures import NO_GPU
from gdrkit.programs.nccl.messages import NO_IB_DEVICE, OF_ONE_NIC

DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Nearest first. NCCL's default level allows the first two: NCCL src/graph/paths.cc."""

OF_SOCKET = ("0", "65536")
"""Port and connections of NCCL's TCP network; a port of RDMA has a number from 1 on. Source: NCCL
src/transport/net_socket.cc, ncclNetSocketGetProperties()."""


def topology_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """GPUs whose nearest NIC is beyond the GPU's own PCIe switches; or that no NIC is listed."""
    matrix = _matrix(lines)
    if matrix is None or is_of_a_spark(matrix):
        return
    shown = [(index, line) for index, line in enumerate(lines) if line.kind in MAY_SHOW]
    rows = [found for found in shown if _PATTERNS["row"].match(found[1].text)]
    if not _has_nics(matrix):
        if rows and any(_PATTERNS["head"].match(line.text) for _, line in shown):
            yield Reading(rows[0][1], rows[0][0], ("no-rdma-device",), STATE)
        return
    far: dict[str, list[str]] = {}
    for gpu in (name for name in matrix.names if name.startswith("GPU")):
        near = _nearest(matrix, gpu)
        if near is not None and near[0] not in ("PIX", "PXB"):
            far.setdefault(near[0], []).append(f"{gpu} ({near[1]})")
    for distance, pairs in far.items():
        name = pairs[0].split()[0]
        row = next((found for found in rows if name in found[1].text), None)
        if row is not None:
            code = "pair-cross-socket" if distance == "SYS" else "pair-distant"
            note = f"{FAR_AWAY} {distance} from {', '.join(pairs[:4])}"
            yield Reading(row[1], row[0], (code, "gdr-level-too-low"), note)


def _matrix(lines: tuple[TextLine, ...]) -> topo_matrix.Matrix | None:
    """The matrix of `nvidia-smi topo -m` in a text; None if it has none."""
    shown = [line.text for line in lines if line.kind in MAY_SHOW]
    if not any("GPU0" in text for text in shown):
        return None
    try:
        return topo_matrix.parse("\n".join(shown))
    except FormatError:
        return None


def topology_row(lines: tuple[TextLine, ...]) -> TextLine | None:
    """The first row of the matrix of `nvidia-smi topo -m` in a text; None if it has none."""
    if _matrix(lines) is None:
        return None
    return next((line for line in lines if _PATTERNS["row"].match(line.text)), None)


def lists_nics(lines: tuple[TextLine, ...]) -> bool:
    """Whether the matrix of `nvidia-smi topo -m` in a text has a NIC."""
    matrix = _matrix(lines)
    return matrix is not None and _has_nics(matrix)


def is_as_built(lines: tuple[TextLine, ...]) -> bool:
    """Whether the matrix in a text is that of a DGX Spark, which nothing changes."""
    matrix = _matrix(lines)
    return matrix is not None and is_of_a_spark(matrix)


def _has_nics(matrix: topo_matrix.Matrix) -> bool:
    return any(_PATTERNS["nic"].match(name) for name in matrix.names)


def _nearest(matrix: topo_matrix.Matrix, gpu: str) -> tuple[str, str] | None:
    """The distance of the nearest NIC, and its name; None if the matrix has none."""
    nics = [name for name in matrix.names if _PATTERNS["nic"].match(name)]
    cells = [(matrix.cells.get((gpu, nic), ""), nic) for nic in nics]
    known = [cell for cell in cells if cell[0] in DISTANCES]
    return min(known, key=lambda cell: DISTANCES.index(cell[0]), default=None)


# -- what NCCL wrote -----------------------------------------------------------------------------------


def dumped_nic(
    line: TextLine, codes: tuple[str, ...], lines: tuple[TextLine, ...]
) -> tuple[tuple[str, ...], str]:
    """The causes and a note for the line of a NIC with gdr="0": those of one NIC where another one has it;
    a GPU's first where every GPU lacks it, and none of them else. `codes`: all causes."""
    fields = dict(_FIELD.findall(line.text))
    name = fields.get("name", "a NIC")
    if (fields.get("port"), fields.get("maxconn")) == OF_SOCKET:
        return NO_IB_DEVICE, f"{name} is an interface, over which NCCL sends TCP"
    shown = [dict(_FIELD.findall(one.text)) for one in lines if _DUMPED.match(one.text)]
    works = [one.get("name", "another one") for one in shown if "sm" not in one and one.get("gdr") == "1"]
    if works:
        return OF_ONE_NIC, f'{name} has gdr="0", and {works[0]} has gdr="1"'
    gpus = {one["gdr"] for one in shown if "sm" in one and "gdr" in one}
    of_gpu = tuple(code for code in codes if code in ("gpu-integrated", *NO_GPU))
    rest = tuple(code for code in codes if code not in of_gpu)
    codes = rest if "1" in gpus else (*of_gpu, *rest) if gpus else codes
    also = ", and so has every GPU" if gpus == {"0"} else ""
    return codes, f'{name} has gdr="0"{also}'


_FIELD = regex(r'\b(name|port|maxconn|gdr|sm)="([\w.+:-]{1,64})"')
_DUMPED = regex(r"\s{0,200}(?:<nic>)?<(?:net|gpu) ")
_PATTERNS = {
    "row": regex(r"[\s|>*]*GPU\d+[\s|]+(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS)\b", re.MULTILINE),
    "head": regex(r"^\s*(?:GPU\d+\s+)+CPU Affinity", re.MULTILINE),
    "nic": regex(r"NIC\d|mlx|ib|roce|bnxt|irdma|efa|rdma|hfi|cxi|hns", re.MULTILINE),
}
