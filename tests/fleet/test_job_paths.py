"""One staged node in a direct job is found, and named."""

from __future__ import annotations

import json

import pytest

from gdrkit.diagnosis import node_of
from gdrkit.fleet.build import build
from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.text import text
from gdrkit.jobs.running.of_node import paths_of_jobs
from tests.jobs.running.records import NIC, bufinfo, closed, device, held, process, record
from tests.memory_host import MemoryHost

MIB = 1 << 20
RUNNING = ("gdr", "ps", "--record")


def node(name: str, **paths: str) -> NodeRow:
    jobs = {f"slurm {job[1:]}": path for job, path in paths.items()}
    return NodeRow(name=name, target=f"{name}.tar.gz", standing=Standing.READY, jobs=jobs)


def test_the_node_that_stages_is_named():
    report = build([node(f"gpu{n}", j7="direct") for n in range(1, 16)] + [node("gpu16", j7="staged")])

    (found,) = report.mismatches
    assert found.trait == "path of slurm 7"
    assert [(one.value, one.count, one.nodes) for one in found.values] == [
        ("direct", 15, "gpu[1-15]"), ("through host memory", 1, "gpu16")
    ]  # fmt: skip
    assert "path of slurm 7: " in text(report) and "gpu16" in text(report)


def test_jobs_that_differ_from_each_other_and_nodes_without_a_job_are_no_mismatch():
    rows = [node("gpu1", j7="direct"), node("gpu2", j7="direct"), node("gpu3", j8="staged"), node("gpu4")]

    assert build(rows).mismatches == ()


def made(*processes, **changed):
    return record(*processes, rdma=[device(*held(1, 701, 8 * MIB), *held(2, 702, 4 * MIB))], **changed)


@pytest.mark.parametrize(
    ("content", "paths"),
    [
        (made(process(701), process(702)), {"slurm 4711.0": "staged"}),
        (made(process(701), buffers=[{"text": bufinfo((8 * MIB, "nv_dmabuf", NIC)), "truncated": False}]),
         {"slurm 4711.0": "direct"}),
        (made(process(701), closed(702), buffers=[]), {}),
        (made(process(701, cgroup="0::/")), {}),
        ({}, {}),
    ],
)  # fmt: skip
def test_the_path_of_a_job_on_a_node_is_its_slowest_that_is_known(content, paths):
    host = MemoryHost({}, commands={RUNNING: json.dumps(content)})

    assert paths_of_jobs(node_of(host)) == paths


def test_a_node_without_a_record_has_no_ways():
    assert paths_of_jobs(node_of(MemoryHost({}))) == {}
