"""Metrics by job: what is summed, and that no pid is a label."""

from __future__ import annotations

from gdrkit.jobs.running.metrics import job_metrics
from tests.jobs.running.records import NIC, bufinfo, closed, device, held, judged, process, record

MIB = 1 << 20
MADE = record(
    process(701), process(702), closed(703), process(704, cgroup="0::/user.slice/session-3.scope\n"),
    rdma=[device(*held(1, 701, 8 * MIB, 4096, pairs=2), *held(2, 702, 4 * MIB, pairs=1, state=1),
                 *held(3, 704, 2 * MIB))],
    buffers=[{"text": bufinfo((8 * MIB, "nv_dmabuf", NIC)), "truncated": False}],
    ports=[{"device": "mlx5_0", "port": "1", "sent": 500, "received": 0, "seconds": 0.5}],
)  # fmt: skip
JOB = ("node17", "slurm", "4711")


def series(name: str, made=MADE) -> dict[tuple[str, ...], float]:
    (metric,) = (one for one in job_metrics("node17", judged(made)) if one.name == name)
    assert all(len(labels) == len(metric.labels) for labels, _ in metric.series)
    return dict(metric.series)


def test_processes_are_counted_by_their_ways_and_a_way_without_any_is_zero():
    found = series("gdr_job_processes")

    assert {labels[-1]: value for labels, value in found.items()} == {
        "direct": 1, "staged": 0, "socket": 0, "host-mapped": 0, "nvlink": 0, "none": 0, "unknown": 2
    }  # fmt: skip
    assert {labels[:3] for labels in found} == {JOB}


def test_registered_bytes_are_those_of_all_processes_by_kind():
    assert series("gdr_job_registered_bytes") == {
        (*JOB, "mlx5_0", "dmabuf"): 8.0 * MIB, (*JOB, "mlx5_0", "other"): 4.0 * MIB + 4096
    }  # fmt: skip


def test_bytes_of_a_table_that_is_not_readable_are_of_unknown_kind():
    made = {**MADE, "buffers": []}

    assert set(series("gdr_job_registered_bytes", made)) == {(*JOB, "mlx5_0", "unknown")}


def test_queue_pairs_and_what_moves():
    assert series("gdr_job_queue_pairs") == {
        (*JOB, "mlx5_0", "connected"): 2.0, (*JOB, "mlx5_0", "other"): 1.0
    }  # fmt: skip
    assert series("gdr_job_processes_moving") == {JOB: 1.0}  # the other pair is not connected


def test_what_belongs_to_no_job_has_no_series():
    assert series("gdr_job_processes", record(process(704, cgroup="0::/\n"))) == {}
