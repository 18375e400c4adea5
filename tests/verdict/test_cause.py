"""The cause of a verdict: one for the first screen, for --line and for the document."""

from __future__ import annotations

import random

import pytest
from machines.cases import with_faults
from machines.faults import BY_NAME, FAULTS
from machines.judge import written
from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.cli import main
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.rdma import ports
from gdrkit.node import Node
from gdrkit.report.answers import first_screen
from gdrkit.report.causes import first_cause
from gdrkit.report.line import line
from gdrkit.verdict import judge_node
from gdrkit.verdict.node_state import nearest_pairs
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import diagnosed, laid_down, names

BROKEN = (State.BLOCKED, State.IMPOSSIBLE)


@pytest.mark.parametrize("name", names())
def test_every_view_names_the_same_cause(name):
    whole = diagnosed(name)
    if whole.verdict.state not in BROKEN:
        assert whole.verdict.cause is None
        assert whole.verdict.first_broken_layer is None
        return
    finding = first_cause(whole)
    assert finding is not None
    assert finding.code == whole.verdict.cause
    assert finding.layer == whole.verdict.first_broken_layer
    assert whole.verdict.summary.startswith(f"{finding.code}: ")
    assert whole.consumers[whole.verdict.consumer].first_broken_layer == finding.layer


CAUSES = {
    "mixed-signers": "module-unknown-key",
    "ofed-not-running": "module-symbol-missing",
    "wsl2": "wsl",
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_cause_that_the_plan_does_not_cure_is_not_named(name):
    """dma-buf lacks less, yet the plan leads to nvidia-peermem. WSL lacks a NIC too, which can be added."""
    assert diagnosed(name).verdict.cause == CAUSES[name]
    assert CAUSES[name] in line(diagnosed(name))


@pytest.mark.parametrize("name", names())
def test_a_plan_cures_the_cause_or_goes_around_one_without_a_remedy(name):
    whole = diagnosed(name)
    if whole.plan and whole.verdict.state is State.BLOCKED:
        planned = {step.remedy for step in whole.plan[0].steps}
        remedies = set(rule_of(whole.verdict.cause).remedies)
        assert planned & remedies or not remedies


def test_a_cause_whose_remedy_is_not_possible_here_stays():
    """Without EFI no key can be enrolled, and no module that is built here would load: there is no plan."""
    unsigned = next(fault for fault in FAULTS if fault.name == "peermem unsigned under lockdown")
    made = with_faults(424242, 1, random.Random("424242 1"), (unsigned,), 1)
    assert not made.machine.trust.efi
    with written(made.machine) as path:
        whole = diagnose(open_host(str(path)))

    assert whole.verdict.cause == "lockdown-blocks-module"
    assert not whole.plan
    assert not next(one for one in whole.findings if one.code == "lockdown-blocks-module").remedies


def test_what_the_operator_says_of_a_missing_module_is_no_second_problem():
    """Linux 5.4 has no dma-buf, which no step cures; nvidia-peermem lacks its file alone."""
    name, kernel = "operator without modules", "5.4"
    fault = next(fault for fault in FAULTS if fault.name == name)
    cases = (with_faults(660781380, n, random.Random(f"660781380 {n}"), (fault,), 1) for n in range(200))
    made = next(case for case in cases if case.machine.kernel.release.startswith(kernel))
    with written(made.machine) as path:
        whole = diagnose(open_host(str(path)))

    blockers = {one.code for one in whole.findings if one.status == "failed"}
    assert {"kernel-lacks-dmabuf", "module-not-found", "operator-module-missing"} <= blockers
    assert whole.verdict.cause == "module-not-found"


def test_what_stops_most_gpus_comes_before_a_lower_layer():
    """The driver explains eight GPUs, the port that is down one of them."""
    node = Node(open_host(str(laid_down("rail-down"))))
    assert judge_node(node).of("nccl").cause.rule.code == "port-down"
    without = judge_node(node.after("unloaded", [is_loaded.becomes(False, DRIVER)]))

    for state in (without.of("nccl"), without.of("verbs")):
        assert (state.cause.rule.code, state.first_broken_layer) == ("driver-not-loaded", "driver")
        assert state.worst.codes[0] == "driver-not-loaded"
    assert "port-down" in {one.code for one in without.findings if one.status == "failed"}


def test_of_what_stops_equally_many_gpus_the_lowest_layer_counts():
    node = Node(open_host(str(laid_down("rail-down"))))
    down = [
        ports.becomes(tuple(replace(port, state="DOWN") for port in ports(node, pair.device)), pair.device)
        for pair in nearest_pairs(node, judge_node(node).matrix)
    ]
    after = judge_node(node.after("all", [*down, is_loaded.becomes(False, DRIVER)]))

    assert after.of("nccl").cause.rule.code == "port-down"


def test_every_screen_names_the_cause_that_stops_most_gpus(capsys):
    """The first screen, its line and `gdr fix` of a made machine."""
    faults = (BY_NAME["port down"], BY_NAME["driver not loaded"])
    drawn = (with_faults(12, n, random.Random(f"12 {n}"), faults, 2) for n in range(200))
    made = next(case for case in drawn if case.faults == faults and len(case.machine.gpus) == 8)
    assert "driver-not-loaded" in made.truth.headline and "port-down" not in made.truth.headline
    with written(made.machine) as path:
        whole = diagnose(open_host(str(path)))
        main(["fix", str(path)])
    fixed = capsys.readouterr().out

    cause = whole.verdict.cause
    assert cause in made.truth.headline
    assert f"] {cause}: " in line(whole)
    assert fixed.startswith(f"blocked for nccl: {cause}: ")
    assert f"[{cause}]" in "\n".join(why for _, why in first_screen(whole).reasons)
