"""The cause of a verdict: one for the first screen, for --line and for the document."""

from __future__ import annotations

import random

import pytest
from machines.cases import with_faults
from machines.faults import FAULTS
from machines.judge import written

from gdrkit.catalogue import rule_of
from gdrkit.diagnosis import diagnose
from gdrkit.evidence.target import open_host
from gdrkit.report.causes import first_cause
from gdrkit.report.line import line
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import diagnosed, names

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
