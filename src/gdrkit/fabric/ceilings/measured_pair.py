"""The GPU, the NIC and the path that a run of perftest measured, as far as its output shows them."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.fabric.ceilings.measured_rate import plateau
from gdrkit.formats.perftest import Perftest
from gdrkit.report.metrics import MeasuredPair
from gdrkit.rules.capabilities import Path


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
