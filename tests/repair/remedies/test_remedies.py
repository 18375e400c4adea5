"""Remedies and what they lead to: which facts each sets, and which log and probe evidence it invalidates."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator

import pytest

from gdrkit.catalogue import every_rule
from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import disk_driver_flavour, driver_flavour
from gdrkit.facts.gpu import is_before_turing
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.pci import gpus
from gdrkit.facts.secure_boot import firmware_is_efi
from gdrkit.loader import modprobe
from gdrkit.node import Fact, Node, Supposition, each_known
from gdrkit.programs.environment import Environment, environment, parse_conf
from gdrkit.repair.remedies import every_remedy, remedy_of
from gdrkit.repair.remedies.plan import STEPS_AT_MOST, plan, what_then
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.check_results import check_results
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import laid_down, names
from tests.repair.remedies.test_pairs import DERIVED, under_nouveau, with_open_modules_on_disk

each_remedy = pytest.mark.parametrize("remedy", every_remedy(), ids=lambda remedy: remedy.name)
each_node = pytest.mark.parametrize("name", names())


@functools.cache
def judged(name: str) -> tuple[Node, Verdict]:
    node = Node(open_host(str(laid_down(name))))
    return node, judge_node(node)


@functools.cache
def observations() -> list[Fact]:
    """Every fact that declares what it observed, in all loaded modules of rules and facts."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.startswith(("gdrkit.facts", "gdrkit.rules", "gdrkit.programs")):
            found |= {id(f): f for f in vars(module).values() if isinstance(f, Fact) and f.saw}
    assert len(found) >= 3
    return list(found.values())


def test_every_remedy_name_has_a_remedy_and_vice_versa():
    assert [remedy.name for remedy in every_remedy()] == list(RemedyName)


@each_remedy
def test_a_remedy_is_named_by_a_rule_and_has_a_risk_and_an_undo(remedy):
    assert any(remedy.name in rule.remedies for rule in every_rule())
    assert remedy.risk and remedy.undo and remedy.becomes


def effects(name: str) -> Iterator[tuple[Node, str, tuple[Supposition, ...]]]:
    """The node, and each remedy that is possible on it with what it would change."""
    node, _ = judged(name)
    for remedy in every_remedy():
        with contextlib.suppress(EvidenceMissing):
            yield node, remedy.name, tuple(remedy.effect(node))


@each_node
def test_a_step_makes_observations_of_what_it_changes_stale(name):
    for node, remedy, changes in effects(name):
        _observations_are_stale(node, node.after(remedy, changes), changes)


def _observations_are_stale(node: Node, after: Node, changes: tuple[Supposition, ...]) -> None:
    touched = {change.key[0] for change in changes}
    for observation in observations():
        if touched & set(observation.saw):
            for answered in [key for key in node._answers if key[0] is observation]:
                with pytest.raises(EvidenceMissing) as caught:
                    after.answer(*answered)
                assert caught.value.missing.why is MissingReason.STALE


def with_a_setting() -> Node:
    """A node whose /etc/nccl.conf turns dma-buf off; no node of tests/evidence has such a setting."""
    conf = "etc/nccl.conf"
    off = Environment(conf, "node", parse_conf("NCCL_DMABUF_ENABLE=0\n", conf))
    return judged("peermem-blacklisted")[0].after("a setting", [environment.becomes(off, conf)])


def with_inbox_running() -> Node:
    """A node with OFED that runs the kernel's own RDMA stack."""
    return judged("ofed-rebuilt")[0].after("before a restart", [is_loaded.becomes(False, "mlx_compat")])


def test_each_remedy_is_possible_on_some_node_and_each_observation_is_changed_by_one():
    """The tests around this one return early on a node where a remedy is not possible."""
    changed, possible = set(), set()
    old = (
        DERIVED[code]() for code in ("nvshmem-misses-peermem", "ucx-misses-peermem", "module-unsupported")
    )
    some = (with_a_setting(), with_inbox_running(), under_nouveau(), with_open_modules_on_disk(), *old)
    for node in (*(judged(name)[0] for name in names()), *some):
        for remedy, effect in each_known(
            lambda remedy, at=node: (remedy, [*remedy.effect(at)]), every_remedy()
        ):
            changed |= {change.key[0] for change in effect}
            possible.add(remedy.name)
    assert possible == set(RemedyName)
    assert all(changed & set(observation.saw) for observation in observations())


@each_node
def test_a_step_leaves_the_node_as_it_was(name):
    states = [state.state for state in judged(name)[1].states]
    node, _ = judged(name)
    for _, remedy, changes in effects(name):
        judge_node(node.after(remedy, changes))
    assert [state.state for state in judge_node(node).states] == states


def test_a_plan_ends_in_ready_and_is_short():
    chains = [chain for name in names() for chain in plan(*judged(name), "nccl")]
    assert len(chains) > 5
    for chain in chains:
        assert chain[-1].then.state in (State.READY, State.ACTIVE)
        assert 1 <= len(chain) <= STEPS_AT_MOST
        assert len({step.remedy.name for step in chain}) == len(chain)


def test_the_shortest_plan_is_the_first():
    """In either order of the paths: the second node needs a further step for dma-buf."""
    one, _ = judged("ofed-rebuilt")
    assert [
        [[step.remedy.name for step in chain] for chain in plan(node, judge_node(node), "nccl")]
        for node in (one, with_a_setting())
    ] == [
        [["open-kernel-modules"], ["rebuild-driver", "load-peermem", "upgrade-nccl"]],
        [["load-peermem"], ["open-kernel-modules", "clean-nccl-settings"]],
    ]


def test_nothing_is_planned_for_a_node_that_works_or_is_impossible():
    others = [name for name in names() if judged(name)[1].of("nccl").state is not State.BLOCKED]
    assert {judged(name)[1].of("nccl").state for name in others} > {State.READY, State.IMPOSSIBLE}
    assert [name for name in others if plan(*judged(name), "nccl")] == []


def test_signing_a_stub_changes_one_error_into_another():
    node, verdict = judged("zgx-3285")
    assert modprobe(node, PEERMEM).reason == "module-unknown-key"
    first = what_then(node, verdict, "nccl")[0][0]
    assert (first.remedy.name, first.modprobe.reason) == ("sign-module", "peermem-stub")
    assert first.then.state is State.IMPOSSIBLE


def test_a_rebuild_sets_the_linkage_and_its_signer_matters_only_where_signatures_do():
    from gdrkit.facts.driver import peermem_linkage, peermem_path
    from gdrkit.facts.secure_boot import signatures_needed
    from gdrkit.facts.trust import signature_check

    known, _ = judged("ofed-rebuilt")
    node = known.after("enforced", [signatures_needed.becomes(True)])
    assert peermem_linkage(node).mismatched
    rebuild = next(remedy for remedy in every_remedy() if remedy.name == "rebuild-driver")
    after = node.after(rebuild.name, rebuild.effect(node))
    assert not peermem_linkage(after).mismatched
    assert after.trail(peermem_linkage).confidence is Confidence.ASSUMED
    with pytest.raises(EvidenceMissing) as caught:
        signature_check(after, peermem_path(after))
    assert caught.value.missing.why is MissingReason.STALE
    lax = known.after(rebuild.name, rebuild.effect(known))
    assert signature_check(lax, peermem_path(lax)).state == "unsigned"


def test_open_modules_are_not_possible_if_one_gpu_of_several_is_too_old():
    node, _ = judged("dgx-a100-proprietary")
    remedy = remedy_of(RemedyName.OPEN_KERNEL_MODULES)
    assert tuple(remedy.effect(node))
    old = node.after("a V100", [is_before_turing.becomes(True, gpus(node)[0])])
    with pytest.raises(EvidenceMissing, match="Turing"):
        tuple(remedy.effect(old))


def test_open_modules_that_are_on_disk_need_a_reboot_and_no_package():
    node, _ = judged("dgx-a100-proprietary")
    install, reboot = remedy_of(RemedyName.OPEN_KERNEL_MODULES), remedy_of(RemedyName.REBOOT)
    installed = node.after("an install", [disk_driver_flavour.becomes("open")])

    with pytest.raises(EvidenceMissing, match="installed, and need a reboot"):
        tuple(install.effect(installed))
    after = installed.after(reboot.name, reboot.effect(installed))
    assert driver_flavour(after) == "open"


def test_a_reboot_is_no_remedy_where_the_same_driver_is_on_disk_or_no_gpu_works_with_it():
    node, _ = judged("dgx-a100-proprietary")
    reboot = remedy_of(RemedyName.REBOOT)
    with pytest.raises(EvidenceMissing, match="another driver on disk"):
        tuple(reboot.effect(node))
    changed = [disk_driver_flavour.becomes("open"), is_before_turing.becomes(True, gpus(node)[0])]
    with pytest.raises(EvidenceMissing, match="Turing"):
        tuple(reboot.effect(node.after("a V100", changed)))


def test_a_rebuild_is_not_possible_if_nothing_exports_the_api():
    node, _ = judged("zgx-3852")
    rebuild = next(remedy for remedy in every_remedy() if remedy.name == "rebuild-driver")
    with pytest.raises(EvidenceMissing):
        tuple(rebuild.effect(node))


def test_rebuilding_after_ofed_is_among_the_plans():
    plans = [[step.remedy.name for step in chain] for chain in plan(*judged("ofed-rebuilt"), "verbs")]
    assert any(plan[:2] == ["rebuild-driver", "load-peermem"] for plan in plans)


def test_a_missing_in_a_supposition_is_kept_unchanged():
    from gdrkit.facts.driver import driver_flavour

    node, _ = judged("zgx-3852")
    unsure = Missing("flavour", MissingReason.STALE, "look again")
    with pytest.raises(EvidenceMissing) as caught:
        driver_flavour(node.after("x", [driver_flavour.becomes(unsure)]))
    assert caught.value.missing == unsure


SIGNED_AGAIN = {
    "mixed-signers": ["open-kernel-modules", "sign-module", "load-driver"],
    "signature-altered": ["rebuild-driver", "sign-module", "load-peermem"],
    "ofed-rebuilt": ["open-kernel-modules"],  # signatures are not enforced
}


@pytest.mark.parametrize("name", SIGNED_AGAIN)
def test_new_modules_are_signed_only_where_signatures_are_enforced(name):
    """The signer of new modules is unknown, so that under Secure Boot the plan signs them."""
    plans = [[step.remedy.name for step in chain] for chain in plan(*judged(name), "nccl")]

    assert SIGNED_AGAIN[name] in plans
    assert all("sign-module" in steps for steps in plans) is (name != "ofed-rebuilt")


def test_what_then_signs_what_was_built_after_a_first_signing():
    (chain,) = what_then(*judged("zgx-3285"), "nccl")
    steps = [step.remedy.name for step in chain]

    assert steps == ["sign-module", "install-ofed", "rebuild-driver", "sign-module", "load-peermem"]
    assert chain[-1].modprobe is not None and chain[-1].modprobe.loaded


def test_a_machine_without_efi_has_no_key_of_its_owner():
    node, verdict = judged("mixed-signers")
    bios = node.after("BIOS", [firmware_is_efi.becomes(False)])

    assert not any("sign-module" in [s.remedy.name for s in chain] for chain in plan(bios, verdict, "nccl"))


@each_node
def test_a_remedy_cures_what_names_it_or_does_so_with_those_after_it(name):
    """A stub needs OFED first, and then a build against it: the remedies of a rule are in that order."""
    node, verdict = judged(name)
    failed = {result.rule for result in verdict.check_results if isinstance(result.outcome, Failed)}
    for rule in failed:
        after, applied = node, []
        for remedy in map(remedy_of, rule.remedies):
            with contextlib.suppress(EvidenceMissing):  # it is not possible here
                after = after.after(remedy.name, tuple(remedy.effect(after)))
                applied.append(remedy.name)
        left = [r.subject for r in check_results(after, [rule]) if isinstance(r.outcome, Failed)]
        assert not applied or not left, f"{rule.code} is left by {applied} at {left}"
