"""What a step is said to lead to is what gdrkit says of the node after that step: on every node of
tests/evidence, and on machines with planted faults, for every program, what-then, plan, `gdr doctor`,
`gdr modprobe` and `gdr fix` agree."""

from __future__ import annotations

import atexit
import functools
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines.cases import case
from msgspec.structs import replace

from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import DRIVER
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.pci import gpus
from gdrkit.facts.rdma import distance, pairs
from gdrkit.loader import modprobe
from gdrkit.node import Node
from gdrkit.programs.names import NAMES
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.plan import GOOD, Chain, PlannedStep, plan, predicted, what_then
from gdrkit.report.build import build
from gdrkit.report.fix import FixOptions, fix_report
from gdrkit.report.programs import shown_programs
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import BEST_FIRST, State
from machines import compose
from tests.evidence_nodes import laid_down, names
from tests.seed import SEED

DRAWN = {f"machine-{number}": number for number in sorted(random.Random(SEED).sample(range(20), 10))}
"""Half of twenty machines, every day others."""
each_node = pytest.mark.parametrize(
    "name", [*names(), *(pytest.param(name, marks=pytest.mark.slow) for name in DRAWN)], scope="module"
)
"""All tests of a node follow each other, in one worker, which judges and plans for it once."""
LOADED_BY = {RemedyName.LOAD_PEERMEM: PEERMEM, RemedyName.LOAD_DRIVER: DRIVER}


@functools.cache
def judged(name: str) -> tuple[Node, Verdict]:
    node = Node(open_host(str(drawn(DRAWN[name]) if name in DRAWN else laid_down(name))))
    return node, judge_node(node)


def drawn(number: int) -> Path:
    """The evidence of a machine with planted faults."""
    folder = Path(tempfile.mkdtemp(prefix="machine-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return compose.write(case(4242, number).machine, folder)


@functools.cache
def plans(name: str, consumer: str) -> tuple[Chain, ...]:
    return tuple(plan(*judged(name), consumer))


@functools.cache
def endings(name: str, consumer: str) -> tuple[Chain, ...]:
    return tuple(what_then(*judged(name), consumer))


def chains(name: str, consumer: str) -> tuple[Chain, ...]:
    return (*endings(name, consumer), *plans(name, consumer))


def walked(name: str) -> Iterator[tuple[str, PlannedStep, Node, Node]]:
    """Every step with its program, and the nodes before and after it."""
    for consumer in NAMES:
        for chain in chains(name, consumer):
            here, _ = judged(name)
            for step in chain:
                after = here.after(step.remedy.name, tuple(step.remedy.effect(here)))
                yield consumer, step, here, after
                here = after


@each_node
def test_the_state_after_a_step_is_the_verdict_on_the_node_after_it(name):
    known: dict[tuple[str, ...], Verdict] = {}
    for consumer in NAMES:
        for chain in chains(name, consumer):
            here, taken = judged(name)[0], ()
            for step in chain:
                here = here.after(step.remedy.name, tuple(step.remedy.effect(here)))
                taken = (*taken, step.remedy.name)
                if taken not in known:
                    known[taken] = judge_node(here)
                verdict = known[taken]
                assert step.then.state != State.ACTIVE  # nothing has run there yet
                assert step.then.state == verdict.of(consumer).state, (consumer, taken)
                if step.then.state in (State.BLOCKED, State.IMPOSSIBLE):
                    assert step.then.blocked_by, (consumer, taken)
                else:
                    assert step.then.blocked_by == (), (consumer, taken)


@each_node
def test_the_prediction_after_a_step_is_that_of_gdr_modprobe(name):
    for _, step, before, after in walked(name):
        if step.modprobe is not None:
            assert step.modprobe == predicted(after)
        if (module := LOADED_BY.get(step.remedy.name)) is not None:
            said = modprobe(before, module)
            assert said.loaded or said.result_unknown, step.remedy.name


@each_node
def test_a_build_comes_right_after_ofed_and_before_the_module_is_loaded(name):
    for consumer in NAMES:
        for chain in chains(name, consumer):
            steps = [step.remedy.name for step in chain]
            if "install-ofed" in steps and "load-peermem" in steps:
                at = steps.index("install-ofed")
                assert steps[at + 1] == "rebuild-driver", steps
            if "rebuild-driver" in steps and "load-peermem" in steps:
                assert steps.index("rebuild-driver") < steps.index("load-peermem"), steps


@each_node
def test_every_plan_ends_in_ready_and_none_repeats_another(name):
    for consumer in NAMES:
        planned = plans(name, consumer)
        assert all(chain[-1].then.state in GOOD for chain in planned)
        assert all(step.then.state not in GOOD for chain in planned for step in chain[:-1])
        for found in (planned, endings(name, consumer)):
            sets = [{step.remedy.name for step in chain} for chain in found]
            assert not any(a <= b for i, a in enumerate(sets) for b in sets[i + 1 :]), sets


@each_node
def test_gdr_fix_shows_the_plans_of_gdr_doctor(name):
    """For four programs of each node, which the date chooses."""
    node, _ = judged(name)
    for consumer in random.Random(f"{SEED} {name}").sample(NAMES, 4):
        shown = fix_report(node, FixOptions(consumer=consumer)).plans
        assert [[(step.remedy, step.then) for step in plan.steps] for plan in shown] == [
            [(step.remedy.name, step.then) for step in chain] for chain in plans(name, consumer)
        ]


@each_node
def test_no_further_step_of_gdr_fix_worsens_a_program_that_is_shown(name):
    """Each is carried out alone: `gdr fix` lists them under "also recommended"."""
    node, verdict = judged(name)
    found = fix_report(node, FixOptions())
    report = build(node, verdict, NAMES[0], chains=(), plans=(), prediction=None)
    for step in found.further:
        after = judge_node(node.after(step.remedy, tuple(remedy_of(step.remedy).effect(node))))
        for program in shown_programs(report):
            was, then = verdict.of(program).state, after.of(program).state
            kept = then in GOOD or BEST_FIRST.index(then) <= BEST_FIRST.index(was)
            assert kept, f"{step.remedy}: {program} was {was}, then {then}"


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("nv-peer-mem-conflict", set()),  # without it, nothing provides peer memory
        ("ofed-upgraded", {"open-kernel-modules", "rebuild-driver", "persist-peermem"}),  # before the boot
        ("acs-redirect", {"clear-acs-redirect"}),
    ],
)
def test_the_further_steps_are_those_that_do_no_harm_alone(name, offered):
    node, _ = judged(name)
    assert {step.remedy for step in fix_report(node, FixOptions()).further} == offered


@pytest.mark.parametrize(
    ("device_id", "state", "offered"),
    [("2bb1", "blocked", {"iommu-passthrough"}), ("2684", "impossible", set())],  # RTX PRO 6000, RTX 4090
)
def test_a_blocked_node_is_offered_what_slows_a_program_that_is_direct(device_id, state, offered):
    """A workstation whose IOMMU translates: only the CPU joins GPU and NIC, too far for NCCL alone."""
    node, _ = judged("iommu-translating")
    (pair,), (gpu,) = pairs(node), gpus(node)
    workstation = node.after(
        "other parts", [distance.becomes("PHB", pair), gpus.becomes((replace(gpu, device_id=device_id),))]
    )
    found = fix_report(workstation, FixOptions())
    assert (found.verdict.state, found.plans) == (state, ())
    assert {step.remedy for step in found.further} == offered


def test_the_tests_above_see_steps_of_every_kind():
    """They pass where there is no chain. This worker has plans for the last nodes already."""
    missing = {*State, "rebuild-driver", "load-peermem", "sign-module"} - {State.ACTIVE}
    with_steps = set()
    for name in reversed(names()):
        for step in (step for consumer in NAMES for chain in chains(name, consumer) for step in chain):
            missing -= {step.then.state, step.remedy.name}
            with_steps.add(name)
        if not missing and len(with_steps) > 10:
            return
    raise AssertionError((missing, with_steps))
