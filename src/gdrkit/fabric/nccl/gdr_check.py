"""NCCL's test of whether a GPU and a NIC may use GPUDirect RDMA, for one direction.

Source: NCCL src/graph/paths.cc, ncclTopoCheckGdr(), at every release from 2.18.1 to 2.30.7. Of all results
NCCL logs only the distance, and since 2.30.3 not even that.
"""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct

from gdrkit.fabric.nccl.graph import GPU, NVS, GraphNode, NcclSystem
from gdrkit.fabric.nccl.search import local_cpu
from gdrkit.fabric.nccl.settings import Settings
from gdrkit.formats.errors import FormatError
from gdrkit.programs.nccl.releases import AMPERE, Release

Mode = Literal["", "Default", "PCI"]
"""NCCL's mode of GPUDirect RDMA; "" if it does not use it."""


class Condition(enum.StrEnum):
    """The conditions, in the order in which NCCL tests them."""

    NIC = "nic"
    GPU = "gpu"
    PARTITION = "partition"
    READ = "read"
    DISTANCE = "distance"


class GdrCheck(Struct, frozen=True):
    """The result of the test. `refused_by` is the first condition that does not hold.

    `distance` is the path's type, `compared` the type that it counts as with C2C, `level` the farthest type
    allowed. `via` is the GPU that sends instead of this one (PXN). `mode` is "" if refused, else Default or
    PCI."""

    refused_by: Condition | None
    distance: str
    compared: str
    level: str
    via: GraphNode | None
    mode: Mode
    may_read: bool
    near_enough: bool


def check(system: NcclSystem, gpu: GraphNode, net: GraphNode, sends: bool, settings: Settings) -> GdrCheck:
    """Whether this pair uses GPUDirect RDMA to send, or to receive. The pair must be connected."""
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
    c2c_types = ("P2C",) if rules.compares_p2c else ("C2C",)
    forced = rules.modes and over_c2c and rules.named(compared) not in c2c_types
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
    """The farthest path type for GPUDirect RDMA if NCCL_NET_GDR_LEVEL is not set."""
    return "P2C" if rules.compares_p2c and settings.gdr_c2c else "PXB"


def _compared(rules: Release, settings: Settings, distance: int, over_c2c: bool) -> int:
    """The path type that a distance counts as: until 2.28.9 a path over C2C counts as near."""
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
    """Whether NICs may read this GPU's memory, which sending needs: NCCL_NET_GDR_READ, or the rule for
    -2."""
    if settings.gdr_read >= 0:
        return settings.gdr_read != 0
    if gpu.sm >= AMPERE and not system.rules.reads_need_nvlink:
        return True
    others = [other for other in system.nodes[GPU] if other is not gpu]
    nvlink = system.rules.order["NVL"]
    return not others or any(other in gpu.paths and gpu.paths[other].type == nvlink for other in others)


def proxy(system: NcclSystem, gpu: GraphNode, net: GraphNode) -> GraphNode | None:
    """The GPU that sends instead of this one, or None: ncclTopoGetIntermediateRank()."""
    path = gpu.paths[net]
    if path.type != system.rules.order["PXN"]:
        return None
    nodes = path.nodes[1:] if system.rules.devices else path.nodes
    first = next((node for node in nodes if node.kind != NVS), None)
    if first is not None and first.kind == GPU:
        return first
    found = next((other for other in system.nodes[GPU] if other.parent is first and first is not None), None)
    if found is None:
        raise FormatError("NCCL fails: it does not find the GPU that sends for another one (PXN)")
    return found
