"""Memory that cannot be pinned: when the kernel counts more free than it has."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, Missing, MissingReason
from gdrkit.node import Node
from gdrkit.rules.engine import judge
from gdrkit.rules.memory_held_for_kexec import memory_held_for_kexec
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Unknown
from tests.memory_host import MemoryHost
from tests.rules.machines import node

NIC = MemoryHost(
    {"sys/devices/pci0000:00/0000:01:00.0/infiniband/rocep1s0f0/node_guid": "1\n"},
    links={"sys/class/infiniband/rocep1s0f0": "../../devices/pci0000:00/0000:01:00.0/infiniband/rocep1s0f0"},
)


def machine(text: str, *more):
    return node({"proc/meminfo": f"MemTotal:       125829120 kB\n{text}HugePages_Total:       0\n"}, *more)


def judged(node: Node) -> Outcome:
    return judge(node, memory_held_for_kexec, "node")


@pytest.mark.parametrize("free", ["940604", "9750528"])
def test_more_free_than_there_is_fails_as_on_two_dgx_sparks(free: str):
    """MemFree was 88 GiB on one: 919 MiB are enough to stop every start."""
    spark = machine(f"CmaTotal:              0 kB\nCmaFree:          {free} kB\n", NIC)
    found = judged(spark)

    assert isinstance(found, Failed) and found.expected == "CmaFree no larger than CmaTotal"
    assert found.seen == f"CmaFree is {free} kB, CmaTotal 0 kB"
    trail = spark.trail(judge, memory_held_for_kexec, "node")
    inferred = [(one.name, one.text) for one in trail.sources if one.confidence is Confidence.LIKELY]
    assert inferred == [("proc/meminfo", "the sign in reports of kernels with handover")]
    assert trail.confidence is Confidence.LIKELY


@pytest.mark.parametrize(("total", "free"), [(0, 0), (65536, 65536), (65536, 1024)])
def test_free_memory_within_the_total_passes(total: int, free: int):
    sized = machine(f"CmaTotal:  {total} kB\nCmaFree:  {free} kB\n", NIC)

    assert judged(sized) == Passed(f"CmaFree {free} kB of {total} kB")
    assert sized.trail(judge, memory_held_for_kexec, "node").confidence is Confidence.CERTAIN


def test_a_kernel_without_such_memory_and_a_node_without_rdma_are_not_judged():
    assert judged(machine("", NIC)) == NotApplicable("the kernel keeps no contiguous memory")
    without_nic = judged(machine("CmaTotal: 0 kB\nCmaFree: 4 kB\n"))
    assert without_nic == NotApplicable("no RDMA device")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("CmaTotal: 0 kB\n", "one of CmaTotal and CmaFree is missing"),
        ("CmaTotal: 0 kB\nCmaFree: many kB\n", "not a size in kB: 'CmaFree: many kB'"),
    ],
)
def test_half_an_account_is_unknown(text: str, why: str):
    missing = Missing("proc/meminfo", MissingReason.GARBLED, f"look at proc/meminfo: {why}")
    assert judged(machine(text, NIC)) == Unknown(missing)
