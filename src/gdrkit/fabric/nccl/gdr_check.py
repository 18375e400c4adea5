"""NCCL's test of a pair of GPU and NIC, for one direction: may data go directly?

Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), at every release from 2.18.1 to 2.30.7. The test is
silent about everything but distance, and since 2.30.3 about that too.
"""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct

from gdrkit.consumers.nccl_releases import Release
from gdrkit.fabric.nccl.graph import GPU, NVS, GraphNode, NcclSystem
from gdrkit.fabric.nccl.search import local_cpu
from gdrkit.fabric.nccl.settings import Settings
from gdrkit.formats.errors import FormatError

Mode = Literal["", "Default", "PCI"]
"""How NCCL goes directly; "" where it does not."""

AMPERE = 80
"""Compute capability from which sends need no NVLink, since 2.19.1."""


class Condition(enum.StrEnum):
    """What has to hold, in the order in which it is tested."""

    NIC = "nic"
    GPU = "gpu"
    PARTITION = "partition"
    READ = "read"
    DISTANCE = "distance"


class GdrCheck(Struct, frozen=True):
    """The outcome. `refused_by` is the first condition that does not hold.

    `distance` is the path's type, `compared` what it counts as with C2C, `level` what is allowed.
    `via` is the GPU that sends in this one's place (PXN). `mode` is "" where refused, Default or PCI."""

    refused_by: Condition | None
    distance: str
    compared: str
    level: str
    via: GraphNode | None
    mode: Mode
    may_read: bool
    near_enough: bool


def check(system: NcclSystem, gpu: GraphNode, net: GraphNode, sends: bool, settings: Settings) -> GdrCheck:
    """Whether this pair goes directly when it sends, or when it receives. The pair must be connected."""
    rules = system.rules
    level = rules.order[settings.gdr_level or default_level(rules, settings)]
    via = proxy(system, gpu, net)
    near = via or gpu
    distance = near.paths[net].type
    cpu = local_cpu(system, near)
    over_c2c = cpu is not None and rules.named(near.paths[cpu].type) == "C2C"
    compared = _compared(rules, settings, distance, over_c2c)
    refused = _refused(system, gpu, net, sends, settings)
    if refused is None and compared > level:
        refused = Condition.DISTANCE
    ways = ("P2C",) if rules.compares_p2c else ("C2C",)
    forced = rules.modes and over_c2c and rules.named(compared) not in ways
    return GdrCheck(
        refused_by=refused,
        distance=rules.named(distance),
        compared=rules.named(compared),
        level=rules.named(level),
        via=via,
        mode="" if refused else "PCI" if forced else "Default",
        may_read=may_read(system, gpu, settings),
        near_enough=compared <= level,
    )


def default_level(rules: Release, settings: Settings) -> str:
    """How far NCCL goes directly where NCCL_NET_GDR_LEVEL is not set."""
    return "P2C" if rules.compares_p2c and settings.gdr_c2c else "PXB"


def _compared(rules: Release, settings: Settings, distance: int, over_c2c: bool) -> int:
    """What a distance counts as: until 2.28.9 a way over C2C is taken for a near one."""
    if not settings.gdr_c2c:
        return distance
    named = rules.named(distance)
    if rules.c2c_counts_as == "PHB>C2C" and named == "PHB" and over_c2c:
        return rules.order["C2C"]
    if rules.c2c_counts_as == "P2C>C2C" and named == "P2C":
        return rules.order["C2C"]
    return distance


def _refused(
    system: NcclSystem, gpu: GraphNode, net: GraphNode, sends: bool, settings: Settings
) -> Condition | None:
    if not net.gdr:
        return Condition.NIC
    if not gpu.gdr:
        return Condition.GPU
    if system.rules.mlopart and gpu.partition >= 0 and not settings.gdr_mlopart:
        return Condition.PARTITION
    return Condition.READ if sends and not may_read(system, gpu, settings) else None


def may_read(system: NcclSystem, gpu: GraphNode, settings: Settings) -> bool:
    """Whether NICs may read this GPU's memory, which sends need: NCCL_NET_GDR_READ, or the rule for -2."""
    if settings.gdr_read >= 0:
        return settings.gdr_read != 0
    if gpu.sm >= AMPERE and not system.rules.reads_need_nvlink:
        return True
    others = [other for other in system.nodes[GPU] if other is not gpu]
    nvlink = system.rules.order["NVL"]
    return not others or any(other in gpu.paths and gpu.paths[other].type == nvlink for other in others)


def proxy(system: NcclSystem, gpu: GraphNode, net: GraphNode) -> GraphNode | None:
    """The GPU that sends in another's place: ncclTopoGetIntermediateRank(). None where there is none."""
    path = gpu.paths[net]
    if path.type != system.rules.order["PXN"]:
        return None
    nodes = path.nodes[1:] if system.rules.devices else path.nodes
    first = next((node for node in nodes if node.kind != NVS), None)
    if first is not None and first.kind == GPU:
        return first
    found = next((other for other in system.nodes[GPU] if other.parent is first and first is not None), None)
    if found is None:
        raise FormatError("NCCL gives up: it cannot find the GPU that would send in another's place")
    return found
