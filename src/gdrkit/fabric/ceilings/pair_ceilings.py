"""The ceiling of each GPU-NIC pair, and the pair that a run of perftest measured."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.fabric.ceilings.from_node import node_links
from gdrkit.fabric.ceilings.measured_rate import plateau
from gdrkit.fabric.ceilings.node_links import NodeLinks, PairLinks
from gdrkit.fabric.ceilings.paths import chain, possible
from gdrkit.formats.perftest import Perftest
from gdrkit.node import Node, if_missing
from gdrkit.report.document import Ceiling
from gdrkit.report.metrics import MeasuredPair
from gdrkit.rules.capabilities import Path

# The GPU, the NIC and the path that a run of perftest measured, as far as its output shows them.


def measured_pair(run: Perftest, pairs: Iterable[tuple[str, str]]) -> MeasuredPair | str:
    """What a run measured on one of these pairs of GPU and RDMA device; else why it cannot be said."""
    if not run.uses_gpu or run.integrated_gpu:
        return "the run used host memory"
    if run.bidirectional:
        return "the rate is the sum of both directions"
    found = [(gpu, nic) for gpu, nic in pairs if nic == run.device and gpu[5:10] == run.gpu_bus]
    if len(found) != 1:
        return (
            f"the run does not show a GPU and a NIC of this node ({run.gpu_bus or '-'}, {run.device or '-'})"
        )
    if run.uses_dmabuf is None:
        return "the run does not show whether it used dma-buf"
    rates = {row.size_bytes: row.average_gb_per_s for row in run.rows if row.average_gb_per_s}
    gb_per_s, notes = plateau({size: rate for size, rate in rates.items() if rate is not None})
    if gb_per_s is None:
        return notes[0]
    (gpu, device), path = found[0], Path.DMABUF if run.uses_dmabuf else Path.PEERMEM
    return MeasuredPair(gpu=gpu, device=device, path=path, gb_per_s=gb_per_s)


def ceilings(node: Node) -> dict[tuple[str, str], Ceiling]:
    """The ceilings by GPU and RDMA device, each of the best path that the hardware has (direct if possible).

    Pairs whose ceiling is not known are left out, as are virtual functions, which share their port's
    rate."""
    found = if_missing(None, node_links, node)
    by_pair = ((pair, _ceiling(found, pair)) for pair in found.pairs) if found else ()
    return {(r.gpu.address, r.function.name): ceiling for r, ceiling in by_pair if ceiling is not None}


def _ceiling(machine: NodeLinks, pair: PairLinks) -> Ceiling | None:
    limits = chain(machine, pair, possible(pair)[0])
    interval, tightest = limits.rate, limits.tightest
    if interval is None or tightest is None:
        return None
    return Ceiling(
        low_gb_per_s=round(interval.low_gb_per_s, 2),
        high_gb_per_s=round(interval.high_gb_per_s, 2),
        tightest=tightest.name,
        shared_with=tuple(tightest.shared_with),
    )
