"""A saved file as a graph. Its format is recognised by content, never by name."""

from __future__ import annotations

import enum
import re

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.missing import not_collected
from gdrkit.fabric.topology import (
    from_hwloc,
    from_lspci_tree,
    from_matrix,
    from_nccl_log,
    from_nccl_xml,
    from_node,
)
from gdrkit.fabric.topology.graph import Topology
from gdrkit.facts.commands import LSPCI
from gdrkit.formats import gpu_listing, hwloc_xml, lspci_tree, nccl_xml, topo_matrix
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.node import Node
from gdrkit.programs.nccl.facts import topology_file, topology_system


class TopologyFileKind(enum.StrEnum):
    """The formats of files."""

    NCCL = "NCCL topology XML"
    LOG = "tree in an NCCL log"
    HWLOC = "hwloc XML"
    MATRIX = "output of nvidia-smi topo -m"
    LSPCI = "output of lspci -vvv"
    DRAWING = "output of lspci -tv"


class SavedTopology(Struct, frozen=True):
    """A graph and its source. `system` is NCCL's own tree if it was read from NCCL's file; `node` is set if
    it was not read from a file, and `placement` is the topology file that NCCL reads on it. A log has the
    version and settings of its job."""

    topology: Topology
    kind: TopologyFileKind | None = None
    system: XmlNode | None = None
    node: Node | None = None
    placement: XmlNode | None = None
    version: str = ""
    environment: dict[str, str] = {}


def of_node(node: Node, *, ask_driver: bool = True) -> SavedTopology:
    """The graph of a node, with the topology file that NCCL reads there. Raises EvidenceMissing if its PCI
    devices are not known, FormatError for more devices than any machine has."""
    graph = from_node.topology(node, ask_driver=ask_driver)
    file: XmlNode | None = None
    try:
        name = topology_file(node)
        file = topology_system(node)
        from_nccl_xml.topology(file)
    except EvidenceAbsent:
        return SavedTopology(graph, node=node)
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.NOT_COLLECTED:  # most machines have none
            return SavedTopology(graph, node=node)
        file, note = None, f"not known: NCCL's topology file ({error.missing.source})"
    except FormatError as error:
        file, note = None, f"/{name}: {error}; NCCL's path types are those of the kernel's tree"
    else:
        note = f"NCCL's path types are those of /{name}, which NCCL reads instead of the kernel's tree"
    return SavedTopology(replace(graph, notes=(*graph.notes, note)), node=node, placement=file)


_ROOT = re.compile(rb"(?:\s*+(?:<!--.*?-->|<[?!](?!--)[^>]*>))*+\s*+<(system|graphs|topology)", re.DOTALL)
"""The outermost element; possessive, so that a comment without an end is read only once."""
_DRAWING = re.compile(r"^-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]", re.MULTILINE)
_LISTING = re.compile(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] \S", re.MULTILINE)


_QUOTED = re.compile(
    rb"^[ \t>]*```\w*[ \t\r]*\n(?=[ \t\r\n]*<(?:system|topology|[?!]))(.*?)^[ \t>]*```", re.M | re.S
)
"""XML in a code fence, with words of a person around it."""


def _unquoted(content: bytes) -> bytes:
    """The first XML in a code fence; the content itself if it has none."""
    found = _QUOTED.search(content) if b"```" in content else None
    return content if found is None else found[1]


def kind_of(content: bytes) -> TopologyFileKind | None:
    """The format of a file by its beginning; None if it is not a topology."""
    start = _unquoted(content).lstrip(b"\xef\xbb\xbf \t\r\n")
    if start[:1] == b"<":
        if (root := _ROOT.match(start)) is None:
            return None
        return TopologyFileKind.HWLOC if root[1] == b"topology" else TopologyFileKind.NCCL
    if b"\0" in content[:4096]:
        return None
    text = content.decode("utf-8", "replace")
    if from_nccl_log.has_dump(text):
        return TopologyFileKind.LOG
    if topo_matrix.has_matrix(text):
        return TopologyFileKind.MATRIX
    for pattern, kind in (
        (_DRAWING, TopologyFileKind.DRAWING),
        (_LISTING, TopologyFileKind.LSPCI),
    ):
        if pattern.search(text):
            return kind
    return None


def read_topology(content: bytes) -> SavedTopology:
    """The graph of a file. Raises FormatError if it is not a topology, truncated or malformed."""
    kind = kind_of(content)
    match kind:
        case TopologyFileKind.NCCL:
            system = nccl_xml.parse(_unquoted(content))
            return SavedTopology(from_nccl_xml.topology(system), kind, system)
        case TopologyFileKind.LOG:
            text = _text(content)
            logged = from_nccl_log.topology(text)
            named = _named(logged.topology, text)
            return SavedTopology(named, kind, version=logged.version, environment=logged.environment)
        case TopologyFileKind.HWLOC:
            return SavedTopology(from_hwloc.topology(hwloc_xml.parse(_unquoted(content))), kind)
        case TopologyFileKind.MATRIX:
            return SavedTopology(_of_matrix(_text(content)), kind)
        case TopologyFileKind.DRAWING:
            return SavedTopology(from_lspci_tree.topology(lspci_tree.parse(_text(content))), kind)
        case TopologyFileKind.LSPCI:
            return SavedTopology(_of_listing(content), kind)
        case _:
            raise FormatError(
                "unsupported format: not XML of NCCL or hwloc, output of nvidia-smi topo -m or lspci, nor "
                "an NCCL log with a tree"
            )


def _of_matrix(text: str) -> Topology:
    matrix = topo_matrix.parse(text)
    count = sum(name.startswith("GPU") for name in matrix.names)
    return from_matrix.topology(matrix, gpu_listing.by_number(text.splitlines(), count))


def _named(topology: Topology, text: str) -> Topology:
    """A tree whose GPUs have the name that programs list in the same text, if they list only one product."""
    listed = (gpu.name for line in text.splitlines() if (gpu := gpu_listing.numbered_gpu_in(line)))
    names = set(listed)
    if len(names) != 1:
        return topology
    (name,) = names
    gpus = tuple(gpu if gpu.name else replace(gpu, name=name) for gpu in topology.gpus)
    return replace(topology, gpus=gpus)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").removeprefix("\ufeff")


def _of_listing(content: bytes) -> Topology:
    """The graph of lspci's listing, read as the only evidence of a node."""
    try:
        return from_node.topology(Node(_Listing(content)))
    except TargetError as error:
        raise FormatError(str(error)) from None
    except EvidenceMissing as error:
        missing = error.missing
        raise FormatError(
            f"{missing.source}: {missing.why.value.replace('-', ' ')}; {missing.ask}"
        ) from None


class _Listing:
    """A host with nothing but the output of lspci."""

    source = "lspci"

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self, path: str) -> bytes:
        raise not_collected(path)

    def map(self, path: str) -> memoryview:
        raise not_collected(path)

    def list(self, path: str) -> tuple[str, ...]:
        raise not_collected(path)

    def exists(self, path: str) -> bool:
        raise not_collected(path)

    def resolve(self, path: str) -> str:
        raise not_collected(path)

    def run(self, command: Command) -> bytes:
        if command == LSPCI:
            return self.content
        raise EvidenceMissing(Missing(command.line, MissingReason.NOT_COLLECTED, command.line))

    def origin(self, name: str) -> None:
        """None: there is no file behind it."""
