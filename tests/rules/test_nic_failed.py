"""NICs whose firmware failed, or never started."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Host
from gdrkit.evidence.target import open_host
from gdrkit.facts.commands import DMESG
from gdrkit.node import Node
from gdrkit.repair.remedies.plan import what_then
from gdrkit.rules.device_not_answering import device_not_answering
from gdrkit.rules.nic_failed import nic_failed
from gdrkit.rules.rule import Failed
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import check_results
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down
from tests.hardware import SERVER, machine
from tests.rules.altered_host import AlteredHost

NIC = "0000:18:00.0"
MISSED = f"mlx5_core {NIC}: poll_health:952:(pid 0): device's health compromised - reached miss count"
SLOT = f"mlx5_core {NIC}: print_health_info:429:(pid 0): PCI slot is unavailable"
FLOW = f"mlx5_core {NIC}: mlx5_health_try_recover:365:(pid 9): starting health recovery flow"
FAILED = f"mlx5_core {NIC}: mlx5_health_try_recover:367:(pid 9): health recovery failed"
RECOVERED = f"mlx5_core {NIC}: mlx5_health_try_recover:371:(pid 9): health recovery succeeded"
STARTED = f"mlx5_core {NIC}: firmware version: 28.43.2026"
NEVER = (
    f"mlx5_core {NIC}: mlx5_function_enable:1130:(pid 17): Firmware over 120000 MS in pre-initializing state"
    ", aborting"
)
LINUX = "[    0.000000] Linux version 6.8.0-45-generic (x) #45\n"


@pytest.fixture(scope="module")
def good() -> Host:
    return open_host(str(laid_down("ubuntu-6.8-h100")))


def verdict(host: Host, *log: str) -> Verdict:
    return judge_node(Node(AlteredHost(host, log=log)))


@pytest.mark.parametrize(
    "log",
    [
        (MISSED,),
        (SLOT,),
        (MISSED, FLOW),
        (MISSED, FLOW, FAILED),
        (RECOVERED, MISSED),
        (STARTED, NEVER),
        (NEVER, STARTED.replace("28.43.2026", "65535.65535.65535")),
        (f"mlx5_core: probe of {NIC} failed with error -16",),
        (f"mlx5_core {NIC}: probe with driver mlx5_core failed with error -110",),
    ],
)
def test_a_failure_of_its_firmware_blocks_the_gpu_beside_it(good: Host, log: tuple[str, ...]):
    found = verdict(good, *log)
    state = found.of("nccl")
    (finding,) = [f for f in found.findings if f.code == "nic-failed"]

    assert (state.state, state.cause and state.cause.rule.code) == (State.BLOCKED, "nic-failed")
    assert (finding.subject, finding.status) == ("mlx5_0", "failed")
    assert NIC in finding.seen


@pytest.mark.parametrize(
    "log",
    [
        (MISSED, FLOW, RECOVERED),
        (MISSED, RECOVERED.replace("recovery succeeded", "revovery succeded")),
        (MISSED, STARTED),
        (MISSED.replace(NIC, "0000:99:00.0"),),
        (f"mlx5_core {NIC}: Port module event: module 0, Cable plugged",),
        (f"mlx5_core {NIC}: print_health_info:433:(pid 0): Health issue observed, High temperature",),
    ],
)
def test_a_firmware_that_recovered_and_other_lines_do_not(good: Host, log: tuple[str, ...]):
    assert verdict(good, *log).of("nccl").state is State.READY


def test_a_reset_is_tried_first_and_promises_nothing(good: Host):
    node = Node(AlteredHost(good, log=[MISSED]))
    (chain,) = what_then(node, judge_node(node), "nccl")
    assert [(step.remedy.name, step.then.state) for step in chain] == [
        ("reset-nic", State.UNKNOWN),
        ("power-cycle", State.UNKNOWN),
    ]


def test_without_a_log_an_active_port_shows_that_it_likely_works(good: Host):
    results = check_results(Node(AlteredHost(good, hidden={DMESG.line})), [nic_failed])
    assert not any(isinstance(result.outcome, Failed) for result in results)


FAR = """
0000:80:01.0 spr-root numa=0
  0000:81:00.0 cx7-ib rdma=mlx5_1
"""
"""A NIC of the same machine, below another host bridge."""
NEAR_WITHOUT = SERVER.replace("cx7-ib rdma=mlx5_0", "cx7-ib")


class TestWithoutAnRdmaDevice:
    """The nearest NIC of the GPU is there, and its driver created no RDMA device."""

    def judged(self, outline: str, log: str = "") -> Verdict:
        return judge_node(machine(outline, commands={("dmesg",): LINUX + log}))

    def test_one_that_does_not_answer_blocks_the_gpu_that_has_no_nearer_one(self):
        found = self.judged(NEAR_WITHOUT.replace("cx7-ib", "cx7-ib answers=no") + FAR)
        state = found.of("nccl")
        (finding,) = [f for f in found.findings if f.code == "device-not-answering"]

        assert (state.state, state.cause and state.cause.rule.code) == (
            State.BLOCKED,
            "device-not-answering",
        )
        assert (finding.subject, finding.status) == (NIC, "failed")

    def test_and_so_does_one_whose_firmware_never_started(self):
        state = self.judged(NEAR_WITHOUT + FAR, f"[   21.0] {NEVER}\n").of("nccl")
        assert (state.state, state.cause and state.cause.rule.code) == (State.BLOCKED, "nic-failed")

    def test_one_that_works_and_is_not_used_for_rdma_does_not(self):
        codes = {f.code for f in self.judged(NEAR_WITHOUT + FAR).findings if f.status == "failed"}
        assert not codes & {"device-not-answering", "nic-failed"}

    def test_another_nic_as_near_serves_the_gpu(self):
        beside = "    0000:17:02.0 pex89-down\n      0000:19:00.0 cx7-ib answers=no\n"
        node = machine(SERVER + beside, commands={("dmesg",): LINUX})
        (failed,) = [r for r in check_results(node, [device_not_answering]) if isinstance(r.outcome, Failed)]
        assert failed.takes == ()


def test_a_nic_in_flash_recovery_is_named():
    """lspci: `Memory controller: Mellanox MT2910 Family [ConnectX-7 Flash Recovery]`, 15b3:0218."""
    node = machine(NEAR_WITHOUT.replace("cx7-ib", "cx7-recovery") + FAR, commands={("dmesg",): LINUX})
    found = judge_node(node)
    state = found.of("nccl")
    assert (state.state, state.cause and state.cause.rule.code) == (State.BLOCKED, "nic-failed")
    advice = {one.advice for one in found.findings if one.code == "nic-failed"}
    assert any("-i IMAGE burn" in words and "mlxfwreset" not in words for words in advice)
