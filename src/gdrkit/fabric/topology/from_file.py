"""A saved file as a graph. Its format is recognised by content, never by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from gdrkit.evidence import Command, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.missing import not_collected
from gdrkit.fabric.topology import (
    from_hwloc,
    from_nccl_log,
    from_nccl_xml,
    from_node,
)
from gdrkit.fabric.topology.graph import (
    C2C,
    HostBridge,
    Net,
    NvLink,
    Role,
    StatedPath,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.fabric.topology.saved import SavedTopology, TopologyFileKind
from gdrkit.facts import pci_text
from gdrkit.facts.cable_halves import AS_BUILT, is_of_a_spark
from gdrkit.facts.commands import LSPCI
from gdrkit.facts.gpu_ids import INTEGRATED, SUPPORTED, is_integrated_name
from gdrkit.formats import gpu_listing, hwloc_xml, lspci_tree, nccl_xml, topo_matrix
from gdrkit.formats.errors import FormatError
from gdrkit.formats.gpu_listing import ListedGpu
from gdrkit.formats.lspci_tree import DrawnFunction
from gdrkit.formats.regex import regex
from gdrkit.formats.topo_matrix import Matrix, MatrixRow
from gdrkit.node import Node

# -- the matrix of `nvidia-smi topo -m` as a graph: no addresses, no tree, but every distance --

MATRIX_NOTES = (
    "nvidia-smi shows no addresses: links, ACS, IOMMU and the tree are not known",
    "NVML distinguishes PIX and PXB by ports, NCCL by switches: the two may differ",
)


def matrix_topology(matrix: Matrix, listed: Mapping[int, ListedGpu] | None = None) -> Topology:
    """The devices of a matrix, and the path type of each pair; what they are, if the text lists the GPUs."""
    nameless = ListedGpu(name="")
    listed = listed or {}
    is_spark = is_of_a_spark(matrix) and all(is_integrated_name(gpu.name) for gpu in listed.values())
    gpus = tuple(name for name in matrix.names if re.fullmatch(r"GPU\d+", name))
    numa_nodes = sorted(
        {number for row in matrix.rows.values() if (number := _numa_node(row.numa_affinity)) is not None}
    )
    rows = {name: matrix.rows.get(name, MatrixRow()) for name in gpus}
    return Topology(
        origin=TopologySource.NVIDIA_SMI_TOPO,
        cpus=tuple(TopologyCpu(numa_node=number) for number in numa_nodes),
        gpus=tuple(
            TopologyGpu(
                id=name,
                index=int(name[3:]),
                name=listed.get(int(name[3:]), nameless).name,
                device=listed.get(int(name[3:]), nameless).device,
                numa_node=_numa_node(rows[name].numa_affinity),
                nvlinks=_nvlinks(matrix, name, gpus),
                is_integrated=is_spark or None,
                c2c=C2C(None, None) if rows[name].gpu_numa_id else None,  # its memory is a NUMA node
            )
            for name in gpus
        ),
        nets=tuple(Net(id=name, device=name) for name in matrix.names if name not in gpus),
        stated=tuple(
            StatedPath(one, other, word)
            for (one, other), word in matrix.cells.items()
            if one != other and word != "N/A"
        ),
        notes=(*matrix.notes, *(AS_BUILT,) * is_spark, *MATRIX_NOTES),
    )


def _nvlinks(matrix: Matrix, name: str, gpus: tuple[str, ...]) -> tuple[NvLink, ...]:
    words = ((other, matrix.cells.get((name, other), "")) for other in gpus if other != name)
    return tuple(NvLink(other, int(word[2:])) for other, word in words if word.startswith("NV"))


def _numa_node(affinity: str) -> int | None:
    """The number of a NUMA node; None if several are near, or none is shown."""
    return int(affinity) if affinity.isascii() and affinity.isdigit() and len(affinity) < 6 else None


# The drawing of `lspci -tv` as a graph: the tree and names, no classes, no links, no NUMA nodes.

DRAWING_NOTES = (
    "lspci -t shows only the tree: links, ACS, IOMMU, NUMA nodes and RDMA devices are not known",
    "GPUs and NICs are recognised by their names",
)
NO_GPU = regex(r"Audio|USB|UCSI|Serial|Switch|Bridge|Memory Controller|Host Controller")
NO_NIC = regex(r"DMA|Bridge|Switch|SoC|Management|Crypto|Virtual Function|nvme", re.IGNORECASE)
NETWORK = ("Mellanox Technologies", "Amazon.com, Inc. Elastic Fabric Adapter")
"""Prefixes of names in pci.ids that are shown as NICs."""


def drawing_topology(drawing: tuple[DrawnFunction, ...]) -> Topology:
    """The graph of a drawing. Raises FormatError if it has neither a GPU nor a NIC that pci.ids names."""
    by_address = {drawn.address: drawn for drawn in drawing}
    roles = {drawn.address: kind for drawn in drawing if (kind := _role(drawn.name))}
    if not roles:
        raise FormatError("no GPU and no NIC by name in the drawing of lspci -t; draw it with lspci -tv")
    kept = dict.fromkeys(step for end in roles for step in (*by_address[end].above, end))
    devices = tuple(
        TopologyDevice(
            address=address,
            role=roles.get(address, Role.BRIDGE),
            parent=by_address[address].above[-1] if by_address[address].above else "",
            host_bridge=by_address[address].root_bus,
            name=by_address[address].name,
        )
        for address in by_address  # bridges first, then the devices below them
        if address in kept
    )
    gpus = [device for device in devices if device.role is Role.GPU]
    return Topology(
        origin=TopologySource.LSPCI_TREE,
        host_bridges=tuple(
            HostBridge(bus) for bus in dict.fromkeys(device.host_bridge for device in devices)
        ),
        devices=devices,
        gpus=tuple(
            TopologyGpu(id=gpu.address, address=gpu.address, index=index, name=gpu.name)
            for index, gpu in enumerate(gpus)
        ),
        nets=tuple(
            Net(id=device.address, device="", address=device.address)
            for device in devices
            if device.role is Role.NIC
        ),
        shows_ports=True,
        notes=DRAWING_NOTES,
    )


def _role(name: str) -> Role | None:
    if name.startswith("NVIDIA Corporation "):
        if unnamed := re.search(r"Device ([0-9a-f]{4})$|\[10de:([0-9a-f]{4})\]$", name):
            number = unnamed[1] or unnamed[2]
            if number in SUPPORTED or number in INTEGRATED:
                return Role.GPU
        return None if NO_GPU.search(name) or (unnamed and unnamed[1]) else Role.GPU
    if name.startswith(NETWORK) and not NO_NIC.search(name):
        return Role.NIC
    return None


_ROOT = regex(rb"(?:\s*+(?:<!--.*?-->|<[?!](?!--)[^>]*>))*+\s*+<(system|graphs|topology)", re.DOTALL)
"""The outermost element; possessive, so that a comment without an end is read only once."""
_DRAWING = regex(r"^-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}\]", re.MULTILINE)
_LISTING = regex(r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] \S", re.MULTILINE)


_QUOTED = regex(
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
            return SavedTopology(drawing_topology(lspci_tree.parse(_text(content))), kind)
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
    return matrix_topology(matrix, gpu_listing.by_number(text.splitlines(), count))


def _named(topology: Topology, text: str) -> Topology:
    """A tree whose GPUs have the name that programs list in the same text, if they list only one product."""
    lines = filter(gpu_listing.MENTIONS.search, text.splitlines())
    names = {gpu.name for line in lines if (gpu := gpu_listing.numbered_gpu_in(line))}
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
        pci_text.parse(_text(content))  # raises FormatError if it lists no device
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
