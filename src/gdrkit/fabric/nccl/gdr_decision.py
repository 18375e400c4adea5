"""Whether NCCL uses GPUDirect RDMA for a GPU and a NIC in one direction, with the reasons.

A topology file may state whether GPUs and NICs support GPUDirect RDMA. NCCL accepts that, and tests what the
file does not state. This module does both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct, structs

from gdrkit.fabric.nccl.gdr_check import Condition, GdrCheck, Mode, check
from gdrkit.fabric.nccl.graph import GraphNode, NcclSystem
from gdrkit.fabric.nccl.nic import GpuEvidence, MechanismSupport, NicEvidence, dmabuf, peermem
from gdrkit.fabric.nccl.paths import LoggedCheck
from gdrkit.fabric.nccl.settings import Settings
from gdrkit.programs.nccl.releases import Release

_CHECK = "src/graph/paths.cc, ncclTopoCheckGdr()"
_NIC = (
    "src/transport/net_ib.cc, ncclIbGdrSupport() and ncclIbDmaBufSupport(); src/init.cc, dmaBufSupported()"
)
_GPU = "src/net.cc (src/plugin/net.cc from 2.26), ncclGpuGdrSupport()"
_READ = "src/graph/paths.cc, ncclTopoCheckGdr(), NCCL_NET_GDR_READ"


Mechanism = Literal["", "dmabuf", "peermem"]


class ConditionResult(Struct, frozen=True):
    """One condition: whether it holds (None: not known), what was seen, and where NCCL tests it."""

    condition: Condition
    holds: bool | None
    seen: str
    source: str


class GdrEvidence(Struct, frozen=True):
    """What is known of both sides beyond the topology file. The file's own `gdr` takes precedence."""

    nic: NicEvidence = NicEvidence()
    gpu: GpuEvidence = GpuEvidence()
    file_says_nic: bool = True
    file_says_gpu: bool = True


class Decision(Struct, frozen=True):
    """One GPU, one NIC, one direction. `direct` is None if it depends on something unknown.

    `mechanism` is what NCCL registers memory with, dmabuf or peermem; "" if not known. NCCL logs neither."""

    sends: bool
    direct: bool | None
    mode: Mode
    mechanism: Mechanism
    via: GraphNode | None
    reasons: tuple[ConditionResult, ...]

    @property
    def because(self) -> ConditionResult | None:
        """The first condition that does not hold; if there is none, the first that is not known."""
        failing = [reason for reason in self.reasons if reason.holds is False]
        unknown = [reason for reason in self.reasons if reason.holds is None]
        return next(iter(failing or unknown), None)


def settled(known: GdrEvidence, rules: Release, settings: Settings, device: str) -> GdrEvidence:
    """The same evidence, with the NIC's side taken from it if it is conclusive for a device."""
    sides = dmabuf(rules, settings, device, known.nic, known.gpu), peermem(rules, known.nic)
    works = {side.works for side in sides}
    return structs.replace(known, file_says_nic=True not in works and None in works)


FirstChecks = Mapping[tuple[GraphNode, GraphNode], GdrCheck]


def first_checks(checks: Iterable[LoggedCheck]) -> FirstChecks:
    """For each GPU and NIC the first check of a receive that NCCL makes, by the paths as they are then."""
    found: dict[tuple[GraphNode, GraphNode], GdrCheck] = {}
    for one in checks:
        if not one.sends:
            found.setdefault((one.gpu, one.net), one.check)
    return found


def decide(
    system: NcclSystem,
    gpu: GraphNode,
    net: GraphNode,
    sends: bool,
    settings: Settings,
    evidence: GdrEvidence | None = None,
    checks: FirstChecks = MappingProxyType({}),
) -> Decision:
    """NCCL's decision for a connected pair of a system whose paths are computed.

    `checks` is what first_checks() makes of compute_paths(). A pair that was refused is routed through the
    CPU afterwards; the distance that counts is the one before."""
    known = evidence or GdrEvidence()
    near_enough = check(system, gpu, net, sends, settings)
    before = checks.get((gpu, net), near_enough)
    sides = _sides(system, net, settings, known)
    reasons = [
        _nic(net, sides, known),
        _gpu(gpu, known),
        *_partition(system, gpu, settings),
        *(_read(system, gpu, settings, near_enough) if sends else ()),
        _distance(before, _named_level(system, settings, before)),
    ]
    holds = [reason.holds for reason in reasons]
    direct = False if False in holds else None if None in holds else True
    return Decision(
        sends=sends,
        direct=direct,
        mode=near_enough.mode if direct else "",
        mechanism=_mechanism(sides) if direct else "",
        via=near_enough.via,
        reasons=tuple(reasons),
    )


def _sides(
    system: NcclSystem, net: GraphNode, settings: Settings, known: GdrEvidence
) -> tuple[MechanismSupport, MechanismSupport]:
    return (
        dmabuf(system.rules, settings, net.name, known.nic, known.gpu),
        peermem(system.rules, known.nic),
    )


def _mechanism(sides: tuple[MechanismSupport, MechanismSupport]) -> Mechanism:
    """dma-buf is used if both work, without a fallback: src/transport/net.cc, sendProxyConnect()."""
    by_dmabuf, by_peermem = sides
    if by_dmabuf.works:
        return "dmabuf"
    return "peermem" if by_peermem.works and by_dmabuf.works is False else ""


def _nic(
    net: GraphNode, sides: tuple[MechanismSupport, MechanismSupport], known: GdrEvidence
) -> ConditionResult:
    if known.file_says_nic:
        return ConditionResult(
            Condition.NIC, bool(net.gdr), f"gdr={net.gdr} of {net.name} in the topology", _CHECK
        )
    works = [side.works for side in sides]
    holds = True if True in works else None if None in works else False
    return ConditionResult(Condition.NIC, holds, "; ".join(side.why for side in sides), _NIC)


def _gpu(gpu: GraphNode, known: GdrEvidence) -> ConditionResult:
    if known.file_says_gpu:
        return ConditionResult(
            Condition.GPU, bool(gpu.gdr), f"gdr={gpu.gdr} of the GPU in the topology", _CHECK
        )
    seen = "CUDA attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) was not probed"
    if known.gpu.gdr is not None:
        seen = f"CUDA attribute 116 (GPU_DIRECT_RDMA_SUPPORTED) is {int(known.gpu.gdr)}"
    return ConditionResult(Condition.GPU, known.gpu.gdr, seen, _GPU)


def _partition(system: NcclSystem, gpu: GraphNode, settings: Settings) -> tuple[ConditionResult, ...]:
    if not system.rules.mlopart or gpu.partition < 0:
        return ()
    seen = f"the GPU is a partition, NCCL_NET_GDR_MLOPART={settings.gdr_mlopart}"
    return (ConditionResult(Condition.PARTITION, settings.gdr_mlopart != 0, seen, _CHECK),)


def _read(
    system: NcclSystem, gpu: GraphNode, settings: Settings, found: GdrCheck
) -> tuple[ConditionResult, ...]:
    if settings.gdr_read >= 0:
        seen = f"NCCL_NET_GDR_READ={settings.gdr_read}"
    elif system.rules.reads_need_nvlink:
        seen = "sending needs NVLink to another GPU of the job, or a single GPU, in this version"
    else:
        seen = f"compute capability {gpu.sm / 10:.1f}; below 8.0 sending needs NVLink or a single GPU"
    return (ConditionResult(Condition.READ, found.may_read, seen, _READ),)


def _named_level(system: NcclSystem, settings: Settings, found: GdrCheck) -> str:
    """The level by the path types that the machine has. P2C, the default since 2.29.2, allows PXB and paths
    over C2C; without C2C that is PXB."""
    if settings.gdr_level or found.level != "P2C":
        return found.level
    over_c2c = any(system.rules.named(kind) == "C2C" for kind in system.gpu_link_types)
    return found.level if over_c2c else "PXB"


def _distance(found: GdrCheck, level: str) -> ConditionResult:
    counted = found.compared
    if found.compared != found.distance:
        counted = f"{found.distance}, which counts as {found.compared},"
    seen = f"{counted} is {'within' if found.near_enough else 'farther than'} {level}"
    if found.via is not None:
        seen += f", from {found.via.printed}, which sends instead"
    return ConditionResult(Condition.DISTANCE, found.near_enough, seen, _CHECK)
