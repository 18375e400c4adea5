"""A topology as a document: `gdr topo --json`, schema gdrkit.topology/1. The text is made from it, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.nccl.merge import FusedNic
from gdrkit.fabric.nccl.settings import KNOWN, not_modelled
from gdrkit.fabric.nccl.view import DirectionView, NcclView, view
from gdrkit.fabric.nccl.view_of_matrix import matrix_view, nccl_paths
from gdrkit.fabric.topo_advice import advice
from gdrkit.fabric.topo_node import has_nvlink_to_another, judged_pairs, with_verdict
from gdrkit.fabric.topo_pairs import TopologyRail, TopoPair, rail_numbers, rails
from gdrkit.fabric.topology.graph import Net, Topology, TopologyGpu, TopologySource
from gdrkit.fabric.topology.nccl_defaults import with_nvlink
from gdrkit.fabric.topology.paths import obstacles, smi_paths, unknown_ports
from gdrkit.fabric.topology.saved import SavedTopology
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import if_missing
from gdrkit.programs.nccl.releases import NEWEST, is_modelled

Sense = Literal["send", "receive"]
NO_SETTINGS = "no settings of NCCL in /etc/nccl.conf"
OF_DOCTOR = "driver, kernel and libraries allow the direct path; gdr doctor checks that"


class NcclChange(Struct, frozen=True, kw_only=True):
    """The effect of the environment on one pair."""

    gpu: str
    net: str
    what: Sense
    before: str
    after: str


VersionOf = Literal["option", "node", "log", "newest"]
"""Whose version was modelled: the one that was asked for, that of the node, of several the oldest, or of the
job; else the newest that is known."""


class NcclSection(Struct, frozen=True, kw_only=True):
    """The NCCL version and settings for which pairs were judged."""

    version: str
    version_of: VersionOf
    environment: dict[str, str] = {}
    model_basis: str  # how the rules of this version are confirmed
    ignored: tuple[str, ...] = ()  # settings that this version ignores, each with the reason
    not_modelled: tuple[str, ...] = ()  # settings that the model does not cover; they may have an effect
    assumed: tuple[str, ...] = ()  # what the source does not show, and NCCL would detect
    fused: tuple[str, ...] = ()  # ports of one card that NCCL uses as one NIC, and its speed
    changes: tuple[NcclChange, ...] = ()  # compared with no environment


class TopoDocument(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag="gdrkit.topology/1"
):
    """The output of `gdr topo`."""

    source: str
    topology: Topology
    pairs: tuple[TopoPair, ...]
    rails: tuple[TopologyRail, ...] = ()
    rail_numbers: dict[str, int] = {}  # of ports; those that are nearest to no GPU have none
    nccl: NcclSection | None = None
    advice: tuple[str, ...] = ()  # what to do if NCCL would use no direct path
    contradictions: tuple[str, ...] = ()  # where nvidia-smi's path type differs from the tree


def build(source: str, saved: SavedTopology, asked: str, given: dict[str, str]) -> TopoDocument:
    """The document of a graph for the NCCL that was asked for, "" for that of the source, with settings
    beside those that it comes with. Raises FormatError if NCCL would fail with it."""
    topology = saved.topology
    version, version_of = _version(saved, asked)
    environment = {name: v for name, v in (saved.environment or {}).items() if name in KNOWN} | given
    see = partial(_view, saved, version)
    now = see(environment)
    linked = with_nvlink(topology)
    other = now if linked is None else _view(replace(saved, topology=linked), version, environment)
    states = judged_pairs(saved.node, version) if saved.node is not None and saved.driver_asked else {}
    found = tuple(
        with_verdict(_pair(saved, gpu, net, now, other), net.device, states)
        for gpu in topology.gpus
        for net in topology.nets
    )
    nearest = rails(found)
    changes: tuple[NcclChange, ...] = ()
    if environment and now.pairs:
        before = see({})
        changes = tuple(_changes(before, now))
    return TopoDocument(
        source=source,
        topology=topology,
        pairs=found,
        rails=nearest,
        rail_numbers=rail_numbers(topology.nets, nearest),
        nccl=NcclSection(
            version=version,
            version_of=version_of,
            environment=environment,
            ignored=now.ignored,
            not_modelled=not_modelled(environment),
            assumed=(*_assumed(saved), *now.assumed),
            fused=tuple(_fused(topology, one) for one in now.fused),
            model_basis=now.model_basis.value,
            changes=changes,
        )
        if now.pairs
        else None,
        advice=advice(topology, now, environment, see, is_guest=_is_guest(saved)),
        contradictions=contradictions(topology, found),
    )


def _version(saved: SavedTopology, asked: str) -> tuple[str, VersionOf]:
    """The NCCL to model, and whose it is."""
    if asked:
        return asked, "option"
    if saved.version and is_modelled(saved.version):
        return saved.version, "log" if saved.node is None else "node"
    return NEWEST, "newest"


def _fused(topology: Topology, fused: FusedNic) -> str:
    """What NCCL makes of ports of one card: it adds up their rates, even if one PCIe link carries less."""
    words = f"{fused.name}, {fused.mbit_per_s / 1000:g} Gb/s"
    parts = [topology.by_address.get(net.address) for net in topology.nets if net.device in fused.parts]
    links = [part.link for part in parts if part is not None]
    one_card = len({part.address[:-2] for part in parts if part is not None}) == 1
    if not (one_card and links and len(links) == len(fused.parts)):
        return words
    speed, width = links[0].gt_per_s, links[0].width
    carried = raw_gbit_per_s(speed, width) if speed and width else fused.mbit_per_s / 1000
    less = carried * 1000 < fused.mbit_per_s
    return f"{words} to NCCL; their one PCIe link carries {carried:.0f}" if less else words


def _is_guest(saved: SavedTopology) -> bool | None:
    """Whether the source is a virtual machine; None if it does not say."""
    node = saved.node
    return None if node is None else if_missing(None, lambda: virtual_machine(node) != "none")


def _assumed(saved: SavedTopology) -> Iterator[str]:
    """What the model of NCCL does not look at on a node, and what of its settings was not collected."""
    if saved.node is not None and not saved.driver_asked:
        yield OF_DOCTOR
    if saved.environment is None:
        yield NO_SETTINGS


def _view(saved: SavedTopology, version: str, environment: Mapping[str, str]) -> NcclView:
    """NCCL's view of a tree, or of a matrix; empty if the source has neither."""
    if saved.topology.devices:
        return view(saved, version, environment)
    if saved.topology.origin is TopologySource.NVIDIA_SMI_TOPO:
        return matrix_view(saved.topology, version, environment)
    return NcclView({})


def _pair(saved: SavedTopology, gpu: TopologyGpu, net: Net, now: NcclView, other: NcclView) -> TopoPair:
    """A pair, judged without NVLink and with it: what depends on it is not known, but for sending with a
    release that wants NVLink to any GPU, which a product may show."""
    topology = saved.topology
    judged, linked = now.pairs.get((gpu.id, net.id)), other.pairs.get((gpu.id, net.id))
    near = smi_paths(topology, gpu, net)
    by_matrix = topology.origin is TopologySource.NVIDIA_SMI_TOPO
    send = receive = None
    if judged and linked:
        node, own = saved.node, linked.send.direct and not linked.send.through
        sends = linked if own and node is not None and has_nvlink_to_another(node, gpu.id) else judged
        send = sends.send if sends.send.direct == linked.send.direct else None
        receive = judged.receive if judged.receive.direct == linked.receive.direct else None
    return TopoPair(
        gpu=gpu.id,
        net=net.id,
        nvidia_smi=near,
        nccl=nccl_paths(near) if by_matrix else (judged.path,) if judged else (),
        gbyte_per_s=judged.gbyte_per_s if judged else None,
        send=send,
        receive=receive,
        obstacles=obstacles(topology, gpu, net),
        unknown_ports=unknown_ports(topology, gpu, net),
    )


def _changes(before: NcclView, now: NcclView) -> Iterator[NcclChange]:
    """Changes for each pair and direction. A different reason for the same refusal does not count."""
    for (gpu, net), pair in now.pairs.items():
        old = before.pairs[gpu, net]
        yield from _change(gpu, net, "send", old.send, pair.send)
        yield from _change(gpu, net, "receive", old.receive, pair.receive)


def _change(gpu: str, net: str, what: Sense, old: DirectionView, new: DirectionView) -> Iterator[NcclChange]:
    if (old.direct, old.mode, old.through) != (new.direct, new.mode, new.through):
        yield NcclChange(gpu=gpu, net=net, what=what, before=_outcome(old), after=_outcome(new))


def _outcome(direction: DirectionView) -> str:
    if not direction.direct:
        return f"not direct ({direction.because})"
    if direction.through:
        return f"direct, through {direction.through}"
    return "direct" + " (PCI)" * (direction.mode == "PCI")


def contradictions(topology: Topology, found: tuple[TopoPair, ...]) -> tuple[str, ...]:
    """Pairs whose path type in nvidia-smi's matrix contradicts the tree."""
    stated = {(cell.one, cell.other): cell.word for cell in topology.stated}
    return tuple(
        f"{pair.gpu} and {pair.net}: nvidia-smi shows {word}, the tree {' or '.join(pair.nvidia_smi)}"
        for pair in found
        if (word := stated.get((pair.gpu, pair.net))) and pair.nvidia_smi and word not in pair.nvidia_smi
    )
