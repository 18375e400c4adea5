"""Metrics of the jobs that run on a node. Labels are jobs and devices, never pids: those have no end."""

from __future__ import annotations

from collections import Counter
from typing import get_args

from gdrkit.jobs.running.document import ProcessPath, PsDocument
from gdrkit.report.metric import Metric, gauge

JOB_KINDS = ("slurm", "pod", "container")
"""What belongs to no job is left out: services and shells."""


def job_metrics(name: str, found: PsDocument) -> tuple[Metric, ...]:
    """The paths, the registered bytes and the queue pairs of each job on the node `name`."""
    paths: Counter[tuple[str, ...]] = Counter()
    moving: Counter[tuple[str, ...]] = Counter()
    registered: Counter[tuple[str, ...]] = Counter()
    pairs: Counter[tuple[str, ...]] = Counter()
    for process in found.processes:
        if process.job.kind not in JOB_KINDS:
            continue
        job = (name, process.job.kind, process.job.id)
        paths.update({(*job, path): int(path == process.verdict.path) for path in get_args(ProcessPath)})
        moving[job] += int(process.verdict.moving is True)
        for held in process.devices:
            direct = held.dmabuf_bytes
            kinds = (("unknown", held.registered_bytes),) if direct is None else (
                ("dmabuf", direct), ("other", max(0, held.registered_bytes - direct)))  # fmt: skip
            for kind, number in kinds:
                registered[*job, held.device, kind] += number
            pairs[*job, held.device, "connected"] += held.connected_pairs
            pairs[*job, held.device, "other"] += held.other_pairs
    labels = ("node", "kind", "job")
    return (
        gauge("gdr_job_processes", "Processes of a job by the path that their GPU memory takes.",
              (*labels, "path"), _series(paths)),
        gauge("gdr_job_processes_moving", "Processes of a job that move data over a network.",
              labels, _series(moving)),
        gauge("gdr_job_registered_bytes", "Memory that a job has registered with an RDMA device.",
              (*labels, "nic", "memory"), _series(registered)),
        gauge("gdr_job_queue_pairs", "Queue pairs of a job, as far as the kernel lists them.",
              (*labels, "nic", "state"), _series(pairs)),
    )  # fmt: skip


def _series(counts: Counter[tuple[str, ...]]) -> list[tuple[tuple[str, ...], float]]:
    return [(labels, float(number)) for labels, number in sorted(counts.items())]
