"""Memory that cannot be pinned: when the kernel counts more free than it has."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.rules.engine import judge
from gdrkit.rules.memory_held_for_kexec import memory_held_for_kexec
from tests.memory_host import MemoryHost
from tests.rules.machines import does_not_apply, failed, missing, node, passes

NIC = MemoryHost(
    {"sys/devices/pci0000:00/0000:01:00.0/infiniband/rocep1s0f0/node_guid": "1\n"},
    links={"sys/class/infiniband/rocep1s0f0": "../../devices/pci0000:00/0000:01:00.0/infiniband/rocep1s0f0"},
)


def machine(text: str, *more):
    return node({"proc/meminfo": f"MemTotal:       125829120 kB\n{text}HugePages_Total:       0\n"}, *more)


@pytest.mark.parametrize("free", ["940604", "9750528"])
def test_more_free_than_there_is_fails_as_on_two_dgx_sparks(free: str):
    """MemFree was 88 GiB on one: 919 MiB are enough to stop every start."""
    spark = machine(f"CmaTotal:              0 kB\nCmaFree:          {free} kB\n", NIC)
    found = failed(spark, memory_held_for_kexec, "node")

    assert free in found.seen
    assert spark.trail(judge, memory_held_for_kexec, "node").confidence is Confidence.LIKELY


@pytest.mark.parametrize(("total", "free"), [(0, 0), (65536, 65536), (65536, 1024)])
def test_free_memory_within_the_total_passes(total: int, free: int):
    sized = machine(f"CmaTotal:  {total} kB\nCmaFree:  {free} kB\n", NIC)

    assert passes(sized, memory_held_for_kexec, "node")
    assert sized.trail(judge, memory_held_for_kexec, "node").confidence is Confidence.CERTAIN


def test_a_kernel_without_such_memory_and_a_node_without_rdma_are_not_judged():
    assert does_not_apply(machine("", NIC), memory_held_for_kexec, "node")
    assert does_not_apply(machine("CmaTotal: 0 kB\nCmaFree: 4 kB\n"), memory_held_for_kexec, "node")


@pytest.mark.parametrize("text", ["CmaTotal: 0 kB\n", "CmaTotal: 0 kB\nCmaFree: many kB\n"])
def test_half_an_account_is_unknown(text: str):
    assert missing(machine(text, NIC), memory_held_for_kexec, "node")
