"""Records that the probe took in guests with real kernels, where each process is known: lab/live.py.

A guest has no GPU. Where a verdict is tested, a GPU is added to each process, and to the RDMA device, which
has none, the address of the NIC that dma-bufs are attached to (lab/guest/gdrlab.c).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.running.records import H200, NCCL, NIC, judged

HOME = Path(__file__).parents[2] / "lab/live"
KERNELS = sorted(path.name for path in HOME.iterdir())
MIB = 1 << 20
HELD = {  # lab/guest/holder.py
    "host": [65536, MIB, 4 * MIB],
    "closed": [2 * MIB, 8 * MIB],
    "open": [2 * MIB, 8 * MIB],
    "threads": [2 * MIB, 3 * MIB, 5 * MIB],
    "flushes": [4, 2 * MIB],
    "rests": [4, 2 * MIB],
    "parent": [2 * MIB],
    "inside": [65536, MIB, 4 * MIB],
}
DIRECT = {"open", "closed", "flushes"}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)
each_seen_by_nobody = pytest.mark.parametrize(
    "kernel", sorted(path.parent.name for path in HOME.glob("*/integrity_nobody.json"))
)


def counted(sizes: dict[str, list[int]]) -> dict[str, list[int]]:
    """How many regions each process has, and their sum."""
    return {name: [len(each), sum(each)] for name, each in sizes.items()}


def recorded(kernel: str, name: str) -> dict[str, Any]:
    return json.loads((HOME / kernel / f"{name}.json").read_text())


def with_gpu(record: dict[str, Any]) -> dict[str, Any]:
    """The record of a machine whose processes use a GPU, and whose NIC is the one that holds dma-bufs."""
    for process in record["processes"]:
        if process["devices"]:
            process["devices"]["/dev/nvidia0"] = 1
            process["libraries"].append(NCCL)
    for row in record["node"]:
        if "rdma_device" in row:
            row["address"] = NIC
    record["node"].append({"gpu": "0000:1b:00.0", "minor": 0, "model": "", "device_id": H200})
    return record


def held(record: dict[str, Any]) -> dict[str, list[int]]:
    """The regions of each process by its name, from the document: its counts and their sum."""
    return {
        one.name: [sum(d.regions for d in one.devices), sum(d.registered_bytes for d in one.devices)]
        for one in judged(record).processes
    }


def test_the_kernels_of_the_issue_are_there():
    assert {"6.1-amd64", "6.12-amd64", "7-debian13-amd64"} <= set(KERNELS)


@each_kernel
def test_root_sees_every_process_with_what_it_holds(kernel):
    """Also the regions of a thread that lives and of one that has ended, and of a child whose parent made
    them and ended."""
    assert held(recorded(kernel, "root")) == counted(HELD)


@each_kernel
def test_nobody_sees_the_same_regions_but_not_the_child_whose_parent_has_ended(kernel):
    record = recorded(kernel, "nobody")
    document = judged(record)
    expected = {name: row for name, row in counted(HELD).items() if name != "parent"}

    assert held(record) == expected
    assert (document.unowned_regions, document.unowned_bytes) == (1, 2 * MIB)
    assert not document.as_root and document.unreadable_processes > len(expected)
    assert {one.verdict.path for one in document.processes} == {"unknown"}
    assert {one.verdict.ask for one in document.processes} == {("as root: sudo gdr ps",)}


@each_kernel
def test_each_process_is_judged_right(kernel):
    """`open` keeps the descriptor of its dma-buf, `closed` does not; both buffers are attached."""
    paths = {one.name: one.verdict for one in judged(with_gpu(recorded(kernel, "root"))).processes}

    assert {name: one.path for name, one in paths.items()} == {
        name: "direct" if name in DIRECT else "unknown" for name in HELD
    }
    assert (paths["open"].registered_by, paths["closed"].registered_by) == ("dmabuf", "dmabuf")
    assert "fdinfo" in paths["open"].evidence[0] and "bufinfo" in paths["closed"].evidence[0]


@each_kernel
def test_without_buffers_at_the_nic_the_others_hold_host_memory(kernel):
    record = with_gpu(recorded(kernel, "root"))
    (table,) = record["buffers"]
    table["text"] = table["text"].replace(NIC, "0000:17:00.0")
    elsewhere = record | {"node": [*record["node"], {"rdma_device": "mlx5_1", "address": "0000:17:00.0"}]}

    for made, path in ((elsewhere, "staged"), (record, "unknown")):  # not known: perhaps its Data Direct
        paths = {one.name: one.verdict.path for one in judged(made).processes}
        assert {paths[name] for name in HELD.keys() - {"open", "flushes"}} == {path}


@each_kernel
def test_what_moves_is_the_process_that_writes_and_the_one_that_flushes(kernel):
    """Also the one that writes in a pid namespace of its own."""
    found = {one.name: one.verdict.moving for one in judged(recorded(kernel, "root")).processes}

    assert {name for name, moving in found.items() if moving} == {"host", "flushes", "inside"}


@each_kernel
def test_from_another_pid_namespace_regions_have_no_owner_and_that_is_said(kernel):
    document = judged(recorded(kernel, "other_pid_namespace"))

    assert document.processes == ()
    assert document.unowned_bytes == sum(sum(sizes) for sizes in HELD.values())
    assert any("pid namespace of its own" in note for note in document.notes)


@each_kernel
def test_another_network_namespace_sees_shared_devices_and_no_exclusive_ones(kernel):
    shared, exclusive = (judged(recorded(kernel, name)) for name in ("other_net_namespace", "exclusive"))

    assert sum(one.devices != () for one in shared.processes) == len(HELD)
    assert all(one.tcp is None for one in shared.processes)
    assert sum(one.devices != () for one in exclusive.processes) == 0
    assert any("belong to one network namespace each" in note for note in exclusive.notes)


@each_kernel
def test_a_process_in_another_network_namespace_is_seen_with_what_it_holds(kernel):
    """RDMA devices are shared by the network namespaces of a node, as they are by default."""
    record = recorded(kernel, "apart")
    document = judged(record)
    (apart,) = [one for one in document.processes if one.name == "apart"]

    assert held(record) == counted(HELD | {"apart": [2 * MIB]})
    assert apart.tcp is None


@each_kernel
@pytest.mark.parametrize("mode", ["integrity", "confidentiality"])
def test_under_lockdown_root_sees_what_it_sees_without(kernel, mode):
    before, record = recorded(kernel, "apart"), recorded(kernel, mode)
    paths = {one.name: one.verdict.path for one in judged(with_gpu(record)).processes}

    assert held(record) == held(before)
    assert paths == {one.name: one.verdict.path for one in judged(with_gpu(before)).processes}


@each_seen_by_nobody
@pytest.mark.parametrize("mode", ["integrity", "confidentiality"])
def test_under_lockdown_nobody_is_told_what_root_would_add(kernel, mode):
    """Without any capability. Root sees every process there, and may judge it."""
    record = recorded(kernel, f"{mode}_nobody")
    document = judged(record)
    expected = {name: row for name, row in counted(HELD | {"apart": [2 * MIB]}).items() if name != "parent"}

    assert record["uid"] == 65534 and held(record) == expected
    assert (document.unowned_regions, document.unowned_bytes) == (1, 2 * MIB)
    assert {(one.verdict.path, one.verdict.ask) for one in document.processes} == {
        ("unknown", ("as root: sudo gdr ps",))
    }
    assert held(recorded(kernel, mode)).keys() == {*HELD, "apart"}


@each_seen_by_nobody
def test_no_look_under_lockdown_is_a_line_in_the_kernels_log(kernel):
    """As root and without any rights, with --trace. The timer is that of the emulated guest."""
    lines = (HOME / kernel / "lockdown_log.txt").read_text().splitlines()

    assert [line for line in lines if "hrtimer: interrupt took" not in line] == [
        f"{mode}: Kernel is locked down from securityfs; see man kernel_lockdown.7"
        for mode in ("integrity", "confidentiality")
    ]


@each_kernel
def test_the_rdma_tool_lists_the_same_regions(kernel):
    """iproute2 is the second source: the same number of regions, with the same sizes."""
    lines = (HOME / kernel / "rdma_resource.txt").read_text().splitlines()
    sizes = sorted(int(line.split(" mrlen ")[1].split()[0]) for line in lines if " mrlen " in line)

    assert sizes == sorted([*(size for held in HELD.values() for size in held), 2 * MIB])


@each_kernel
def test_nothing_is_left_running(kernel):
    assert (HOME / kernel / "left.txt").read_text() == ""
