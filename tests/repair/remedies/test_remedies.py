"""Steps and where they lead: what each promises, and whom it silences."""

from __future__ import annotations

import functools
import sys

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.modules import PEERMEM
from gdrkit.loader import modprobe
from gdrkit.node import Fact, Node
from gdrkit.repair.remedies import BY_NAME, REMEDIES
from gdrkit.repair.remedies.plan import STEPS_AT_MOST, plan, what_then
from gdrkit.rules import RULES
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down, names

each_remedy = pytest.mark.parametrize("remedy", REMEDIES, ids=lambda remedy: remedy.name)
each_node = pytest.mark.parametrize("name", names())


@functools.cache
def judged(name: str) -> tuple[Node, Verdict]:
    node = Node(open_host(str(laid_down(name))))
    return node, judge_node(node)


def witnesses() -> list[Fact]:
    """Every fact that declares what it saw, in all modules of rules and facts that are loaded."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("gdrkit.facts", "gdrkit.rules")):
            found |= {id(f): f for f in vars(module).values() if isinstance(f, Fact) and f.saw}
    assert len(found) >= 3
    return list(found.values())


def test_every_name_of_a_step_has_a_step_and_the_other_way_round():
    assert [remedy.name for remedy in REMEDIES] == list(RemedyName)
    assert list(BY_NAME) == list(RemedyName)


@each_remedy
def test_a_remedy_is_named_by_some_rule_and_says_risk_and_undo(remedy):
    assert any(remedy.name in rule.remedies for rule in RULES)
    assert remedy.risk and remedy.undo and remedy.becomes


@each_node
@each_remedy
def test_a_step_silences_every_witness_of_what_it_changes(remedy, name):
    node, _ = judged(name)
    try:
        changes = tuple(remedy.effect(node))
    except EvidenceMissing:
        return  # the step is not to be had on this node
    after = node.after(remedy.name, changes)
    touched = {change.key[0] for change in changes}
    for witness in witnesses():
        if touched & set(witness.saw):
            for answered in [key for key in node._answers if key[0] is witness]:
                with pytest.raises(EvidenceMissing) as caught:
                    after.answer(*answered)
                assert caught.value.missing.why is MissingReason.STALE


@each_node
@each_remedy
def test_a_step_leaves_the_node_as_it_was(remedy, name):
    node, verdict = judged(name)
    try:
        judge_node(node.after(remedy.name, remedy.effect(node)))
    except EvidenceMissing:
        return
    assert [state.state for state in judge_node(node).states] == [state.state for state in verdict.states]


@each_node
def test_a_plan_ends_in_ready_and_every_way_is_short(name):
    for chain in plan(*judged(name), "nccl"):
        assert chain[-1].then.state in (State.READY, State.ACTIVE)
        assert 1 <= len(chain) <= STEPS_AT_MOST
        assert len({step.remedy.name for step in chain}) == len(chain)


@each_node
def test_nothing_is_planned_for_what_works_or_never_will(name):
    node, verdict = judged(name)
    if verdict.of("nccl").state is not State.BLOCKED:
        assert plan(node, verdict, "nccl") == ()


def test_signing_a_stub_changes_one_error_into_another():
    node, verdict = judged("zgx-3285")
    assert modprobe(node, PEERMEM).reason == "module-unknown-key"
    first = what_then(node, verdict, "nccl")[0][0]
    assert (first.remedy.name, first.modprobe.reason) == ("sign-module", "peermem-stub")
    assert first.then.state is State.IMPOSSIBLE


def test_a_rebuild_promises_a_linkage_and_forgets_the_signer():
    from gdrkit.facts.driver import peermem_linkage, peermem_path
    from gdrkit.facts.trust import standing

    node, _ = judged("ofed-rebuilt")
    assert peermem_linkage(node).mismatched
    rebuild = next(remedy for remedy in REMEDIES if remedy.name == "rebuild-driver")
    after = node.after(rebuild.name, rebuild.effect(node))
    assert not peermem_linkage(after).mismatched
    assert after.trail(peermem_linkage).confidence is Confidence.ASSUMED
    with pytest.raises(EvidenceMissing) as caught:
        standing(after, peermem_path(after))
    assert caught.value.missing.why is MissingReason.STALE


def test_a_rebuild_is_not_to_be_had_where_nothing_exports_the_api():
    node, _ = judged("zgx-3852")
    rebuild = next(remedy for remedy in REMEDIES if remedy.name == "rebuild-driver")
    with pytest.raises(EvidenceMissing):
        tuple(rebuild.effect(node))


def test_rebuilding_after_ofed_is_among_the_plans():
    ways = [[step.remedy.name for step in chain] for chain in plan(*judged("ofed-rebuilt"), "verbs")]
    assert any(way[:2] == ["rebuild-driver", "load-peermem"] for way in ways)


def test_a_missing_in_a_promise_is_kept_as_it_was_given():
    from gdrkit.facts.driver import driver_flavour

    node, _ = judged("zgx-3852")
    unsure = Missing("flavour", MissingReason.STALE, "look again")
    with pytest.raises(EvidenceMissing) as caught:
        driver_flavour(node.after("x", [driver_flavour.becomes(unsure)]))
    assert caught.value.missing == unsure


@pytest.mark.parametrize(
    ("name", "there"), [("mixed-signers", False), ("ofed-rebuilt", True)], ids=["enforced", "not-enforced"]
)
def test_new_modules_are_promised_only_where_no_signature_decides(name, there):
    """Who signs the open modules is not known, so under Secure Boot no way ends with them."""
    first = [chain[0].remedy.name for chain in plan(*judged(name), "nccl")]
    assert ("open-kernel-modules" in first) is there
    assert first  # another way is left
