"""`gdr doctor` names the processes that use a path which it calls active."""

from __future__ import annotations

import json

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import RUNNING
from gdrkit.facts.usage import BUFINFO
from gdrkit.jobs.running.of_node import direct_processes
from gdrkit.node import Node
from gdrkit.report.text import text
from tests.evidence_nodes import build
from tests.jobs.running.records import bufinfo, device, held, process, record
from tests.memory_host import MemoryHost

MIB, NIC = 1 << 20, "0000:18:00.0"  # a NIC of the node ubuntu-6.8-h100


class Running:
    """A node's host, with a table of dma-bufs and a record of processes. Counts how often it is asked."""

    def __init__(self, host, table: str, content: bytes) -> None:
        self._host, self._table, self._content, self.source = host, table, content, host.source
        self.asked = 0

    def __getattr__(self, name):
        return getattr(self._host, name)

    def read(self, path: str) -> bytes:
        return self._table.encode() if path == BUFINFO else self._host.read(path)

    def run(self, command) -> bytes:
        if command != RUNNING:
            return self._host.run(command)
        self.asked += 1
        return self._content


def made(**changed) -> dict:
    found = record(
        process(701), process(702), process(703),
        rdma=[device(*held(1, 701, 8 * MIB, 4096), *held(2, 702, 4 * MIB))],
        buffers=[{"text": bufinfo((8 * MIB, "nv_dmabuf", NIC)), "truncated": False}], **changed,
    )  # fmt: skip
    return {**found, "node": [*found["node"], {"rdma_device": "mlx5_0", "address": NIC}]}


@pytest.fixture
def node(tmp_path):
    def start(table: str, content: bytes) -> Running:
        return Running(open_host(str(build("ubuntu-6.8-h100", tmp_path))), table, content)

    return start


def test_the_process_that_uses_an_active_path_is_named_and_no_other(node):
    host = node(bufinfo((8 * MIB, "nv_dmabuf", NIC)), json.dumps(made()).encode())
    report = diagnose(host)

    assert [(one.pid, one.job, one.devices, one.path) for one in report.in_use] == [
        (701, "slurm 4711.0", ("mlx5_0",), "dmabuf")
    ]
    assert "in use by process 701 python3 (slurm 4711.0) on mlx5_0" in " ".join(text(report).split())


def test_where_nothing_is_in_use_nobody_is_asked(node):
    host = node(bufinfo(), json.dumps(made()).encode())

    assert diagnose(host).in_use == () and host.asked == 0


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"[" * 100_000])
def test_a_record_of_another_form_changes_nothing_else(node, content):
    host = node(bufinfo((8 * MIB, "nv_dmabuf", NIC)), content)
    report = diagnose(host)

    assert report.in_use == () and host.asked == 1
    assert any(one.state == "active" for one in report.judgements.values())


def test_a_bundle_without_a_record_names_none():
    assert direct_processes(Node(MemoryHost({}))) == ()
