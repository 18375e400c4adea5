"""`gdr doctor` names the processes that use a path which it calls active."""

from __future__ import annotations

import json

import pytest

from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import MAPPED, RUNNING
from gdrkit.facts.usage import BUFINFO
from gdrkit.jobs.running.of_node import direct_processes, programs
from gdrkit.node import Node
from gdrkit.report.programs import shown_programs
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
        if path == "proc/modules":  # of a machine where a process uses CUDA
            return self._host.read(path).replace(b"nvidia_uvm 1830912 0 ", b"nvidia_uvm 1830912 4 ")
        return self._table.encode() if path == BUFINFO else self._host.read(path)

    def run(self, command) -> bytes:
        if command == MAPPED and self._content.startswith(b"{"):
            return self._content
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
    target = str(build("ubuntu-6.8-h100", tmp_path))

    def start(table: str, content: bytes) -> Running:
        return Running(open_host(target), table, content)

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


def mapping(*paths: str, **changed) -> bytes:
    """The record of one process that maps these libraries."""
    libraries = [{"name": path.rpartition("/")[2], "path": path} for path in paths]
    return json.dumps(record(process(701, libraries=libraries), **changed)).encode()


def with_record(content: bytes, uses: int | str = 3) -> Node:
    modules = f"nvidia_uvm 4493312 {uses} - Live 0x0\n"
    return Node(MemoryHost({"proc/modules": modules}, commands={MAPPED.argv: content.decode()}))


WHEEL = "/opt/torch/.venv/lib/python3.12/site-packages"
TRANSPORT = f"{WHEEL}/nvidia/nvshmem/lib/nvshmem_transport_ibrc.so.3"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (TRANSPORT, "nvshmem"),
        (
            f"{WHEEL}/nvidia/nvshmem/lib/nvshmem_bootstrap_uid.so.3",
            "nvshmem",
        ),  # on two H200s: this one alone
        ("/opt/hpcx/ucx/lib/libucp.so.0.0.0", "ucx"),
        (f"{WHEEL}/nixl_cu12.libs/libucp-9f92e4c3.so.0.0.0", "ucx"),
        (f"{WHEEL}/.nixl_cu12.mesonpy.libs/libnixl.so", "nixl"),
        (f"{WHEEL}/deep_ep_cpp.cpython-312-x86_64-linux-gnu.so", "deepep"),
        (f"{WHEEL}/deep_ep/_C.cpython-312-x86_64-linux-gnu.so", "deepep"),
        (f"{WHEEL}/mooncake/engine.so", "mooncake"),
        ("/usr/lib/x86_64-linux-gnu/libgdrapi.so.2.5", "gdrcopy"),
        ("/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net.so", "aws-ofi-nccl"),
        # the near misses
        (f"{WHEEL}/nvidia/nvshmem/lib/libnvshmem_host.so.3", None),  # PyTorch itself maps it
        ("/opt/hpcx/nccl_rdma_sharp_plugin/lib/libnccl-net.so.0.0.0", None),
        ("/usr/lib/x86_64-linux-gnu/libuct.so.0.0.0", None),
    ],
)
def test_a_program_runs_if_a_process_maps_its_library(path: str, name: str | None):
    runs = programs(with_record(mapping(path)))

    assert {one for one, running in runs.items() if running} == ({name} if name else set())


def test_where_no_process_uses_cuda_no_program_runs_and_nobody_is_asked():
    assert set(programs(with_record(b"not asked", uses=0)).values()) == {False}
    assert set(programs(Node(MemoryHost({"proc/modules": "ext4 1 1 - Live 0x0\n"}))).values()) == {False}


def test_without_a_record_or_with_a_part_of_it_a_program_may_run():
    assert programs(Node(MemoryHost({}))) == {}
    assert programs(with_record(b"[]")) == {}
    for part in ({"denied_processes": 2}, {"hidden_processes": True}):
        assert programs(with_record(mapping(TRANSPORT, **part))) == {"nvshmem": True}


def test_a_kernel_that_cannot_unload_modules_does_not_count_their_uses():
    assert programs(with_record(mapping(TRANSPORT), uses="-"))["nvshmem"]


def test_a_program_that_only_runs_is_shown_with_the_states_that_it_had(node):
    idle = diagnose(node(bufinfo(), mapping()))
    runs = diagnose(node(bufinfo(), mapping(TRANSPORT)))

    assert not idle.consumers["nvshmem"].installed and not idle.consumers["nvshmem"].running
    assert shown_programs(runs).keys() - shown_programs(idle).keys() == {"nvshmem"}
    assert {n: one.state for n, one in runs.consumers.items()} == {
        n: one.state for n, one in idle.consumers.items()
    }
    assert [(f.code, f.status) for f in runs.findings] == [(f.code, f.status) for f in idle.findings]
    assert "nvshmem" in text(runs) and "nvshmem" not in text(idle)
