"""NCCL's view of the matrix of nvidia-smi: distances decide its test without a tree.

Its words bound NCCL's path types (`NCCL_OF`). The memory of a GPU with NVLink-C2C is near the NICs of its
processor for NCCL, whatever the matrix shows: ncclTopoComputePaths(), P2C. So those are left out."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from gdrkit.fabric.nccl.gdr_check import default_level
from gdrkit.fabric.nccl.settings import Settings, settings
from gdrkit.fabric.nccl.view import (
    DirectionView,
    NcclPair,
    NcclView,
    ignored_settings,
    left_out,
)
from gdrkit.fabric.topology.graph import NcclPath, Net, SmiPath, Topology, TopologyGpu
from gdrkit.fabric.topology.nccl_defaults import ASSUMED_CAPABILITY, ASSUMED_GPUS, ASSUMED_NICS
from gdrkit.fabric.topology.paths import smi_paths
from gdrkit.fabric.topology.products import lasting
from gdrkit.programs.nccl.releases import Release, model_basis, release
from gdrkit.programs.nccl.settings import allows

NCCL_OF = {
    SmiPath.PIX: (NcclPath.PIX,),
    SmiPath.PXB: (NcclPath.PIX, NcclPath.PXB),  # NCCL merges two levels of Broadcom switches: topo.cc
    SmiPath.PHB: (NcclPath.PHB,),
    SmiPath.NODE: (NcclPath.PHB,),
    SmiPath.SYS: (NcclPath.SYS,),
}
"""The path types of NCCL that are possible if only nvidia-smi's is known."""
CHECK = "src/graph/paths.cc, ncclTopoCheckGdr()"
PROXIES = (SmiPath.PIX, SmiPath.PXB)
"""How near a GPU must be to send for another one: ncclTopoComputePaths(), PXN."""


def nccl_paths(paths: tuple[SmiPath, ...]) -> tuple[NcclPath, ...]:
    """The path types of NCCL that these of nvidia-smi may be."""
    return tuple(dict.fromkeys(word for path in paths for word in NCCL_OF[path]))


def matrix_view(topology: Topology, version: str, environment: Mapping[str, str]) -> NcclView:
    """The view of one NCCL version. A pair that the matrix does not decide is left out."""
    rules = release(version)
    given = settings(rules, environment)
    level = _level(rules, given)
    near = {
        (gpu.id, net.id): smi_paths(topology, gpu, net) for gpu in topology.gpus for net in topology.nets
    }
    pairs = {}
    for gpu in topology.gpus:
        for net in topology.nets:
            types = nccl_paths(near[gpu.id, net.id])
            through = _proxy(topology, gpu, net, near, given, rules)
            tested = nccl_paths(near[through, net.id]) if through else types
            fits = {allows(level, path) for path in tested}
            if not types or len(fits) != 1 or gpu.c2c is not None:
                continue
            words = "" if fits == {True} else f"{types[-1]} is farther than {_named(level)}"
            received = _direction(net, lasting(topology, gpu), words, given)
            pairs[gpu.id, net.id] = NcclPair(
                path=types[-1],
                gbyte_per_s=None,
                send=_sent(topology, gpu, received, through, rules, given),
                receive=received,
            )
    open_ones = pairs and not all(lasting(topology, gpu) for gpu in topology.gpus)
    assumed = (ASSUMED_CAPABILITY, ASSUMED_GPUS, ASSUMED_NICS) if open_ones else ()
    return NcclView(pairs, ignored_settings(given), assumed, (), model_basis(version))


def _level(rules: Release, given: Settings) -> str:
    return given.gdr_level or default_level(rules, given)


def _named(level: str) -> str:
    """P2C, the default since 2.29.2, is PXB for a GPU without C2C."""
    return "PXB" if level == "P2C" else level


def _direction(net: Net, never: str, words: str, given: Settings) -> DirectionView:
    if without := left_out(given, net):
        return DirectionView(False, without)
    if never:
        return DirectionView(False, never)
    return DirectionView(not words, words, "" if words else "Default", source=CHECK if words else "")


def _sent(
    topology: Topology,
    gpu: TopologyGpu,
    received: DirectionView,
    through: str,
    rules: Release,
    given: Settings,
) -> DirectionView:
    """As the other direction, if NICs read this GPU's memory."""
    if not received.direct:
        return received
    alone = not gpu.nvlinks or given.p2p_level == "LOC"
    if given.gdr_read == 0:
        why = "NCCL_NET_GDR_READ=0"
    elif given.gdr_read < 0 and rules.reads_need_nvlink and len(topology.gpus) > 1 and alone:
        why = "sending needs NVLink to another GPU in this version"
    else:
        return structs.replace(received, through=through)
    return DirectionView(False, why, through=through, source=CHECK)


def _proxy(
    topology: Topology,
    gpu: TopologyGpu,
    net: Net,
    near: Mapping[tuple[str, str], tuple[SmiPath, ...]],
    given: Settings,
    rules: Release,
) -> str:
    """The GPU whose distance NCCL tests instead, because it sends (PXN): the first with NVLink to this one
    that is near a NIC which this one reaches only through the processor."""
    mine = near[gpu.id, net.id]
    if rules.pxn_needs_gdr and (given.gdr_read == 0 or not allows(_level(rules, given), PROXIES[0].value)):
        return ""
    if given.pxn_disable or given.p2p_level == "LOC" or any(path in PROXIES for path in mine):
        return ""
    linked = {link.target for link in gpu.nvlinks or ()}
    return next(
        (
            other.id
            for other in topology.gpus
            if other.id in linked and any(path in PROXIES for path in near[other.id, net.id])
        ),
        "",
    )
