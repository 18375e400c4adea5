"""The pairs of a node's GPUs and ports, and its rail map: the ports nearest to each GPU."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.fabric.nccl.view import DirectionView
from gdrkit.fabric.topology.graph import NcclPath, Net, SmiPath
from gdrkit.fabric.topology.paths import Obstacle

NCCL_ORDER, SMI_ORDER = tuple(NcclPath), tuple(SmiPath)


class TopoPair(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU and one port. Of several path types, the source does not show which one applies."""

    gpu: str
    net: str
    nvidia_smi: tuple[SmiPath, ...] = ()
    nccl: tuple[NcclPath, ...] = ()
    gbyte_per_s: float | None = None  # the bandwidth that NCCL assumes for this path
    send: DirectionView | None = None
    receive: DirectionView | None = None
    undecided: tuple[str, ...] = ()  # codes of gdr doctor that leave open whether the node allows it
    obstacles: tuple[Obstacle, ...] = ()
    unknown_ports: tuple[str, ...] = ()  # not known whether they redirect


class TopologyRail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The ports nearest to one GPU, all of one path type."""

    gpu: str
    path: str  # NCCL's path type where it is known, else nvidia-smi's
    nearest: tuple[str, ...]
    direct: bool | None = None  # whether NCCL receives directly from one of them; null: not known


def rails(pairs: Iterable[TopoPair]) -> tuple[TopologyRail, ...]:
    """The rail of each GPU, in the order of pairs; GPUs without a known path are left out."""
    by_gpu: dict[str, dict[tuple[int, str], list[TopoPair]]] = {}
    for pair in pairs:
        if (found := _far(pair)) is not None:
            by_gpu.setdefault(pair.gpu, {}).setdefault(found, []).append(pair)
    return tuple(_rail(gpu, *min(groups.items())) for gpu, groups in by_gpu.items())


def rail_numbers(nets: Iterable[Net], found: Iterable[TopologyRail]) -> dict[str, int]:
    """The number of each port that is nearest to a GPU, in the order of the ports: a fabric with rails
    connects them to its switches in that order. Empty where no two GPUs differ in their ports."""
    nearest = {rail.nearest for rail in found}
    if len(nearest) < 2:
        return {}
    own = {net for ports in nearest for net in ports}
    return {net: number for number, net in enumerate(net.id for net in nets if net.id in own)}


def _far(pair: TopoPair) -> tuple[int, str] | None:
    """How far a pair is, to sort by, and its path type; at worst where several are possible."""
    if pair.nccl:
        return max((NCCL_ORDER.index(path), path.value) for path in pair.nccl)
    if pair.nvidia_smi:
        return max((SMI_ORDER.index(path), path.value) for path in pair.nvidia_smi)
    return None


def _rail(gpu: str, far: tuple[int, str], pairs: list[TopoPair]) -> TopologyRail:
    views = [pair.receive for pair in pairs if pair.receive is not None]
    direct = any(view.direct for view in views) if views else None
    return TopologyRail(gpu=gpu, path=far[1], nearest=tuple(pair.net for pair in pairs), direct=direct)
