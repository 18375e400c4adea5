"""The trees and path tables that NCCL writes into its log with NCCL_DEBUG_SUBSYS=GRAPH, since 2.6.4.

A line of a tree names a link and the node at its end; its column is that of the node above. Ids are
hexadecimal: one number up to 2.20 with the host above bit 56, later `host-id`. NCCL cuts lines of path
tables at 1024 characters. Source: NCCL src/graph/topo.cc, ncclTopoPrint(), and paths.cc, printNodePaths().
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.errors import FormatError

LOCAL_BITS = 56
"""The bits of an id below its host: src/graph/topo.h, NCCL_TOPO_ID()."""
MOST_NODES, DEEPEST = 4096, 32
"""More than any dump has: NCCL's files hold at most 640 children, src/graph/xml.h."""
LINE_CHARACTERS = 4096


class DumpId(Struct, frozen=True):
    """A node: its kind (CPU, PCI, GPU, NIC, NET, NVS, DEV), its host, and its number there."""

    kind: str
    host: int
    number: int


class DumpNode(Struct):
    """A node with its link to the node above, and what the parentheses after its id hold."""

    id: DumpId
    words: str
    link: str  # PCI, LOC, NVL, C2C, SYS, NET; "" for a root
    gbyte_per_s: float
    children: list[DumpNode]


class NcclDump(Struct):
    """One tree, and the path types in the table after it."""

    roots: list[DumpNode]
    paths: dict[tuple[DumpId, DumpId], str]
    nodes: int = 0
    lost: int = 0  # lines whose line above is missing


def joined(dumps: Iterable[NcclDump]) -> NcclDump:
    """The trees of one host as one: each process prints only the devices that it uses."""
    whole = NcclDump([], {})
    for dump in dumps:
        _join(whole.roots, dump.roots)
        whole.paths |= dump.paths
        whole.nodes += dump.nodes
        whole.lost = max(whole.lost, dump.lost)
    return whole


def _join(mine: list[DumpNode], theirs: list[DumpNode]) -> None:
    known = {(node.id, node.link): node for node in mine}
    for node in theirs:
        same = known.get((node.id, node.link))
        if same is None:
            mine.append(node)
            known[node.id, node.link] = node
        else:
            _join(same.children, node.children)


@functools.cache
def _begin() -> re.Pattern[str]:
    return re.compile(r"=== System : max(?:Bw|Width) [\d.]{1,20}")


def begins_dump(line: str) -> bool:
    """Whether a message is the first line of a tree."""
    return _begin().match(line) is not None


_ID = r"(?P<kind>[A-Z]{3})/(?P<id>[0-9A-Fa-f]{1,16}(?:-[0-9A-Fa-f]{1,16})?)"


@functools.cache
def _root() -> re.Pattern[str]:
    return re.compile(rf"{_ID} \((?P<words>-?\d+/-?\d+/-?\d+)\)\s*$")


@functools.cache
def _branch() -> re.Pattern[str]:
    return re.compile(
        r"(?P<blanks> {0,1024})\+ (?P<link>PCI|NVL|C2C|SYS|NET|LOC)\[(?P<bw>\d{1,9}(?:\.\d{1,6})?)\]"
        rf" - {_ID}(?: \((?P<words>[^()]{{0,80}})\))?"
    )


@functools.cache
def _path() -> re.Pattern[str]:
    return re.compile(rf"{_ID} \(\d+/[\d.]+/(?P<type>[A-Z0-9]{{3}})\)")


def dump_id(kind: str, text: str) -> DumpId:
    """The id in a dump: `0-19000`, `19000`, or of an old release `100000000019000`."""
    host, dash, local = text.rpartition("-")
    number = int(local, 16)
    if dash:
        return DumpId(kind, int(host, 16), number)
    if number >> 60 == 15 and kind == "CPU":  # -1: no NUMA node
        return DumpId(kind, 0, number)
    return DumpId(kind, number >> LOCAL_BITS, number & ((1 << LOCAL_BITS) - 1))


def parse(messages: Iterable[str]) -> list[NcclDump]:
    """The dumps in the messages of one process, in order. Raises FormatError for one that is larger than any
    machine."""
    found: list[NcclDump] = []
    in_tree = False
    columns: dict[int, DumpNode] = {}
    for message in messages:
        line = message[:LINE_CHARACTERS]
        if begins_dump(line):
            found.append(NcclDump([], {}))
            in_tree, columns = True, {}
        elif not found:
            continue
        elif line.startswith("======"):
            in_tree = False
        elif in_tree:
            _tree_line(found[-1], columns, line)
        elif line[:4] in ("GPU/", "NET/") and " :" in line:
            _table_line(found[-1], line)
    return found


def _tree_line(dump: NcclDump, columns: dict[int, DumpNode], line: str) -> None:
    if root := _root().match(line):
        node = DumpNode(dump_id(root["kind"], root["id"]), root["words"], "", 0.0, [])
        dump.roots.append(node)
        columns.clear()
        columns[0] = node
    elif branch := _branch().match(line):
        above = columns.get(len(branch["blanks"]))
        if above is None:
            dump.lost += 1
            return
        node = DumpNode(
            dump_id(branch["kind"], branch["id"]), branch["words"] or "", branch["link"],
            float(branch["bw"]), [],
        )  # fmt: skip
        above.children.append(node)
        column = branch.start("kind")
        for other in [other for other in columns if other >= column]:
            del columns[other]
        columns[column] = node
        if len(columns) > DEEPEST:
            raise FormatError("a tree of NCCL's log is deeper than any machine")
    else:
        return
    dump.nodes += 1
    if dump.nodes > MOST_NODES:
        raise FormatError("a tree of NCCL's log is larger than any machine")


def _table_line(dump: NcclDump, line: str) -> None:
    row, _, rest = line.partition(" :")
    kind, _, text = row.partition("/")
    if not re.fullmatch(r"[0-9A-Fa-f]{1,16}(?:-[0-9A-Fa-f]{1,16})?", text) or len(dump.paths) > MOST_NODES:
        return
    one = dump_id(kind, text)
    for found in _path().finditer(rest):
        dump.paths[one, dump_id(found["kind"], found["id"])] = found["type"]
