"""The judge looks at the device, the cost and the remedy, and not at the code alone."""

from __future__ import annotations

import copy
import functools
import random
from typing import Any

import pytest
from machines.cases import Case, with_faults
from machines.cost import bounds, changed, fallback
from machines.faults import BY_NAME, FAULTS
from machines.judge import Answer, ask, compare
from machines.remedies import STEPS, after
from machines.truth import judge
from machines.words import STEP_OF, named

BLAMED = ("mlx5_99", "0000:99:00.0")
ABOUT_DEVICES = (
    "GPU off the bus", "NIC that does not answer", "port down", "small BAR1", "full BAR1",
    "rail without NIC", "GPU gone", "lost lanes", "small slot", "redirecting switch port",
    "NIC at another root port", "small read requests", "NIC refuses dma-buf", "kernel without dma-buf",
    "NICs with other names", "Volta with a stub",
)  # fmt: skip


def planted(name: str, gpus: int = 0) -> Case:
    """The first machine with this fault and so many GPUs."""
    drawn = (with_faults(5, 0, random.Random(f"{name} {n}"), (BY_NAME[name],)) for n in range(100))
    return next(made for made in drawn if len(made.machine.gpus) >= gpus)


@functools.cache
def asked(name: str, gpus: int = 0) -> tuple[Case, Answer]:
    made = planted(name, gpus)
    return made, ask(made.machine, modprobe=False)


def kinds(made: Case, answer: Answer) -> set[str]:
    return {miss.kind for miss in compare(made, answer)} - {"modprobe"}


def changed_report(answer: Answer, change: Any) -> Answer:
    report = copy.deepcopy(answer.report)
    change(report)
    return answer._replace(report=report)


@pytest.mark.parametrize("blamed", BLAMED)
@pytest.mark.parametrize("name", ABOUT_DEVICES)
def test_a_finding_that_blames_another_device_is_wrong(name, blamed):
    made, answer = asked(name)
    codes = set(BY_NAME[name].codes)

    def blame(report: dict[str, Any]) -> None:
        for finding in report["findings"]:
            if finding["code"] in codes:
                finding["subject"] = blamed

    assert "device" not in kinds(made, answer)
    assert "device" in kinds(made, changed_report(answer, blame))


def test_a_confident_failure_of_another_device_is_a_wrong_claim():
    made, answer = asked("GPU off the bus")

    def blame(report: dict[str, Any]) -> None:
        for finding in report["findings"]:
            if finding["status"] == "failed":
                finding["subject"] = BLAMED[1]

    assert "claim" in kinds(made, changed_report(answer, blame))


def test_a_healthy_device_of_the_same_kind_is_not_the_broken_one():
    """The near miss: it is on the machine, and has the name that the rule would have printed."""
    made, answer = asked("GPU off the bus", 2)
    other = next(gpu for gpu in made.machine.gpus if gpu.answers)

    def blame(report: dict[str, Any]) -> None:
        for finding in report["findings"]:
            if finding["code"] == "device-not-answering":
                finding["subject"] = other.address

    assert "device" in kinds(made, changed_report(answer, blame))


def test_a_ceiling_above_what_a_link_can_is_wrong_and_so_is_one_far_below():
    made, answer = asked("small slot")
    (pair, before), *_ = changed(made.healthy, made.machine)

    def raised(factor: float) -> Answer:
        def change(report: dict[str, Any]) -> None:
            for one in report["pairs"]:
                one["ceiling"]["high_gb_per_s"] *= factor

        return changed_report(answer, change)

    assert pair.gb_per_s < before
    assert "cost" not in kinds(made, answer)
    assert "cost" in kinds(made, raised(1.2))
    assert "cost" in kinds(made, raised(0.5))


def test_a_slot_of_a_quarter_of_the_lanes_lets_a_quarter_pass():
    """16 lanes of 32 GT/s carry 63 GB/s, of which packets of 256 bytes leave 58.4; two lanes 7.3."""
    made = planted("small slot")
    nic = next(one for one in made.machine.nics if one.link.endswith("x2"))
    speed = float(nic.link.split("x")[0])
    (bound,) = {one.gb_per_s for one in bounds(made.machine) if one.nic == nic.address}

    assert bound == pytest.approx(speed * 2 * 128 / 130 / 8 * 256 / 276, rel=1e-6)


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        ("port down", "staged"),
        ("NCCL_IB_DISABLE=1", "socket"),
        ("no NIC", "socket"),
        ("no GPU", ""),
        ("driver not loaded", ""),
    ],
)
def test_what_is_left_without_a_direct_path(fault, left):
    machine = planted(fault).machine
    if fault == "port down" and all(nic.state != "ACTIVE" for nic in machine.nics):
        left = "socket"

    assert fallback(machine) == left


def test_a_remedy_that_does_not_cure_is_wrong():
    made, answer = asked("little locked memory")

    def mislead(report: dict[str, Any]) -> None:
        for finding in report["findings"]:
            if finding["code"] == "memlock-limit":
                finding["remedies"] = ["upgrade-nccl"]

    assert "remedy" not in kinds(made, answer)
    assert "remedy" in kinds(made, changed_report(answer, mislead))


def test_a_plan_that_does_not_end_where_it_says_is_wrong():
    made, answer = asked("driver not loaded")
    step = {"remedy": "upgrade-nccl", "then": {"state": "ready", "blocked_by": []}}
    mended = changed_report(answer, lambda report: report.update(plan=[{"steps": [step]}]))

    assert "remedy" not in kinds(made, answer)
    assert "remedy" in kinds(made, mended)


def test_each_remedy_of_gdrkit_is_a_step():
    assert set(STEP_OF.values()) <= set(STEPS)


@pytest.mark.parametrize(
    ("fault", "step", "state"),
    [
        ("Xid 95, uncontained", "reset the GPUs", "ready"),
        ("Xid 154, told to reboot", "reset the GPUs", "blocked"),
        ("Xid 154, told to reboot", "reboot", "ready"),
        ("GPU off the bus", "reset the GPUs", "blocked"),
        ("GPU off the bus", "power cycle", "ready"),
        ("Fabric Manager not running", "start Fabric Manager", "ready"),
        ("GPU that its switches refuse", "start Fabric Manager", "blocked"),
        ("NIC given up, firmware silent", "reset the GPUs", "blocked"),
        ("NIC given up, firmware silent", "reset the NICs", "ready"),
        ("NIC given up, slot unavailable", "reset the NICs", "blocked"),
        ("NIC given up, slot unavailable", "power cycle", "ready"),
    ],
)
def test_which_step_cures_a_device(fault, step, state):
    """Xid catalogue: RESET_GPU and RESTART_BM; GPU debug guidelines, Xid 79; Fabric Manager user guide."""
    reached = judge(after(planted(fault).machine, [step])).states["verbs"]

    assert reached == {state}


def test_a_subject_that_no_device_has_keeps_its_name():
    machine = planted("port down").machine
    nic = machine.nics[0]

    assert named(machine, nic.rdma) == nic.address
    assert named(machine, "mlx5_99") == "mlx5_99"
    assert (
        named(machine, f"{machine.gpus[0].address} {nic.rdma}") == f"{machine.gpus[0].address} {nic.address}"
    )
    assert named(machine, "etc/nccl.conf:1") == "etc/nccl.conf"
    assert named(machine, "nvidia-peermem.ko.zst") == "nvidia_peermem"


def test_most_faults_name_what_they_are_about():
    without = [fault.name for fault in FAULTS if not planted_names(fault.name)]

    assert len(without) * 3 < len(FAULTS), without


def planted_names(name: str) -> set[str]:
    made = planted(name)
    return {one for code in BY_NAME[name].codes for one in made.truth.subjects.get(code, ())}
