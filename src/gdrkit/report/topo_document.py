"""A topology as a document: `gdr topo --json`, schema gdrkit.topology/1. Versioned, additive. PURE.

The text is made from the same document, so that neither says more."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.topology.graph import Gpu, Net, Origin, SmiPath, Topology
from gdrkit.topology.paths import Obstacle, obstacles, smi_paths, unknown_ports

NCCL_OF = {
    SmiPath.PIX: ("PIX",),
    SmiPath.PXB: ("PIX", "PXB"),  # NCCL takes two levels of Broadcom switches for one: topo.cc
    SmiPath.PHB: ("PHB",),
    SmiPath.NODE: ("PHB",),
    SmiPath.SYS: ("SYS",),
}
"""What NCCL may call a path of which nvidia-smi's word alone is known."""


class Direction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether NCCL would go directly, one way. `because` names the condition that does not hold."""

    direct: bool
    because: str = ""
    mode: str = ""  # PCI where NCCL asks for a mapping over PCIe past C2C


class PairSection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU and one port. Several words: the source leaves the choice between them."""

    gpu: str
    net: str
    nvidia_smi: tuple[str, ...] = ()
    nccl: tuple[str, ...] = ()
    gbyte_per_s: float | None = None  # what NCCL plans for this path
    send: Direction | None = None
    receive: Direction | None = None
    through: str = ""  # the GPU through which NCCL sends in this one's place (PXN)
    obstacles: tuple[Obstacle, ...] = ()
    unknown_ports: tuple[str, ...] = ()  # of which nobody can tell whether they redirect


class Change(Struct, frozen=True, kw_only=True):
    """What a variable changes for a pair."""

    gpu: str
    net: str
    what: str  # path, send, receive
    before: str
    after: str


class NcclSection(Struct, frozen=True, kw_only=True):
    """As which NCCL the pairs were judged."""

    version: str
    environment: dict[str, str] = {}
    ignored: tuple[str, ...] = ()  # settings that this version ignores, each with the reason
    assumed: tuple[str, ...] = ()  # what the source does not say, and NCCL would find out
    changes: tuple[Change, ...] = ()  # against no environment


class TopoDocument(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag="gdrkit.topology/1"
):
    """All that `gdr topo` tells."""

    source: str
    topology: Topology
    pairs: tuple[PairSection, ...]
    nccl: NcclSection | None = None
    contradictions: tuple[str, ...] = ()  # where nvidia-smi's own word differs from the tree


def pairs(topology: Topology) -> tuple[PairSection, ...]:
    """Every GPU with every port, as far as the graph tells without NCCL."""
    return tuple(_pair(topology, gpu, net) for gpu in topology.gpus for net in topology.nets)


def _pair(topology: Topology, gpu: Gpu, net: Net) -> PairSection:
    near = smi_paths(topology, gpu, net)
    named = dict.fromkeys(word for path in near for word in NCCL_OF[path])
    return PairSection(
        gpu=gpu.id,
        net=net.id,
        nvidia_smi=tuple(path.value for path in near),
        nccl=tuple(named) if topology.origin is Origin.NVIDIA_SMI_TOPO else (),
        obstacles=obstacles(topology, gpu, net),
        unknown_ports=unknown_ports(topology, gpu, net),
    )


def contradictions(topology: Topology, found: tuple[PairSection, ...]) -> tuple[str, ...]:
    """Pairs of which nvidia-smi says something that the tree does not allow."""
    stated = {(cell.one, cell.other): cell.word for cell in topology.stated}
    return tuple(
        f"{pair.gpu} and {pair.net}: nvidia-smi says {word}, the tree {' or '.join(pair.nvidia_smi)}"
        for pair in found
        if (word := stated.get((pair.gpu, pair.net))) and pair.nvidia_smi and word not in pair.nvidia_smi
    )
