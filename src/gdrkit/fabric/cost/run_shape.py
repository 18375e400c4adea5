"""How many GPUs and nodes took part in a run of nccl-tests, also where a paste leaves its ranks out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from gdrkit.formats.nccl_tests import NcclTest, Timing

MOST_RANKS = 128
"""Two decimals of a rate of some hundred GB/s do not tell larger numbers of ranks apart."""


class RunShape(Struct, frozen=True):
    """The GPUs of a run, and how many there are on a node. None: not shown."""

    ranks: int | None
    per_node: int | None
    note: str = ""  # how it is known, if not from the list of ranks

    @property
    def nodes(self) -> int | None:
        if self.ranks is None or not self.per_node or self.ranks % self.per_node:
            return None
        return self.ranks // self.per_node

    def __str__(self) -> str:
        gpus = "GPUs not shown" if self.ranks is None else f"{self.ranks} GPUs"
        nodes = {None: "nodes not shown", 1: "1 node"}.get(self.nodes, f"{self.nodes} nodes")
        return f"{gpus} on {nodes}"


def shape_of(run: NcclTest, gpus: int) -> RunShape:
    """The shape of a run whose nodes have so many GPUs.

    The list of ranks counts if it is whole. Of a shortened one, the number follows from busbw / algbw."""
    per_host = Counter(rank.hostname for rank in run.ranks)
    highest = max((rank.rank for rank in run.ranks), default=-1) + 1
    if run.ranks and highest <= len(run.ranks):
        alike = len(set(per_host.values())) == 1
        return RunShape(len(run.ranks), per_host.most_common(1)[0][1] if alike or not gpus else gpus)
    ranks = ranks_by_ratio(run)
    if ranks is None or ranks < highest:
        return RunShape(None, None)
    shown = max((rank.device for rank in run.ranks), default=-1) + 1
    per_node = max(shown, gpus) if ranks > max(shown, gpus) else None
    how = f"busbw / algbw is that of {ranks} GPUs; the text does not list them all"
    if per_node:
        how += f", {per_node} on each node is assumed"
    return RunShape(ranks, per_node, how)


def ranks_by_ratio(run: NcclTest) -> int | None:
    """The number of ranks for which busbw / algbw is what the run prints, within its rounding, at every
    size; None if several fit, or for an operation without such a factor.

    Source of the factors: NVIDIA/nccl-tests doc/PERFORMANCE.md."""
    factor = FACTORS.get(run.program)
    if factor is None:
        return None
    timings = [row.best for row in run.rows if row.best is not None]
    known = [timing for timing in timings if _fits(timing, 0.0) is not None]
    fitting = [
        ranks
        for ranks in range(2, MOST_RANKS + 1)
        if known and all(_fits(timing, factor(ranks)) for timing in known)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _fits(timing: Timing, factor: float) -> bool | None:
    """Whether a factor leads from one rate to the other, both rounded to two decimals; None without
    rates."""
    alg, bus = timing.algorithm_gb_per_s, timing.bus_gb_per_s
    if not alg or not bus:
        return None
    return abs(alg * factor - bus) <= 0.005 * (1 + factor) + 1e-9


def _passes(ranks: int) -> float:
    return (ranks - 1) / ranks


FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * _passes(ranks),
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter"), _passes),
}
"""busbw / algbw by the number of ranks. Other operations have 1."""
