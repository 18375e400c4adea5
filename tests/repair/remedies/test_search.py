"""The searches for steps: how far they go, and at which GPU they look."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.libraries import verbs_has_dmabuf
from gdrkit.facts.modprobe_config import Directive, configuration
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.nvidia_smi import SmiGpu, smi_memory
from gdrkit.facts.pci import gpus
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.node import Node
from gdrkit.programs.environment import Environment, environment, parse_conf
from gdrkit.repair.remedies import loading_plan, plan, remedy_of
from gdrkit.repair.remedies.plan import untried, what_then
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.verdict import judge_node
from tests import work
from tests.repair.remedies.test_pairs import after, plain, with_line


def loading_steps(node: Node) -> list[str] | None:
    found = loading_plan.loading_plan(node)
    return None if found is None else [step.name for step in found]


@pytest.mark.parametrize(("limit", "found"), [(2, ["rebuild-driver", "load-peermem"]), (1, None)])
def test_the_last_step_counts_too(monkeypatch, limit, found):
    monkeypatch.setattr(loading_plan, "STEPS_AT_MOST", limit)
    assert loading_steps(plain("ofed-rebuilt")) == found


@pytest.mark.parametrize(("limit", "longest"), [(1, 1), (3, 3)])
def test_a_plan_has_no_more_steps_than_the_limit(monkeypatch, limit, longest):
    monkeypatch.setattr(plan, "STEPS_AT_MOST", limit)
    node = plain("ofed-rebuilt")
    assert max(map(len, plan.plan(node, judge_node(node), "nccl"))) == longest


def test_of_two_equally_long_plans_the_one_without_a_reboot_is_first():
    node = plain("peermem-blacklisted")
    found = plan.plan(node, judge_node(node), "nccl")
    assert [[step.remedy.name for step in chain] for chain in found] == [
        ["load-peermem"],
        ["open-kernel-modules"],
    ]


def test_a_module_that_a_command_may_load_needs_no_other_step():
    """What the command does is not known, and no step would tell."""
    assert loading_steps(with_line("install", "/usr/bin/decide")) == ["load-peermem"]


def test_steps_that_were_taken_in_another_order_are_not_tried_again():
    one, two, three = (remedy_of(name) for name in ("sign-module", "allow-module", "load-peermem"))
    seen = {steps(one, two)}
    choices = [(two, ()), (three, ())]
    assert list(untried(choices, (one,), seen)) == [(three, ())]
    assert seen == {steps(one, two), steps(one, three)}
    assert list(untried(choices, (one,), seen)) == []
    assert list(untried([(one, ())], (one,), seen)) == [(one, ())], "once more is something else"


def steps_where_signatures(needed: bool | Missing) -> list[list[str]]:
    node = after("ofed-rebuilt", signatures_needed.becomes(needed))
    return [[step.remedy.name for step in chain] for chain in what_then(node, judge_node(node), "nccl")]


def test_a_rebuilt_module_is_signed_where_signatures_are_needed_and_not_where_that_is_unknown():
    unknown = Missing("sys/kernel/security/lockdown", MissingReason.NOT_COLLECTED, "dmesg")
    unsigned = [["open-kernel-modules"], ["rebuild-driver", "load-peermem", "upgrade-nccl"]]

    assert steps_where_signatures(False) == unsigned
    assert steps_where_signatures(unknown) == [["open-kernel-modules"], ["rebuild-driver", "load-peermem"]]
    assert all(steps[1] == "sign-module" for steps in steps_where_signatures(True))


def test_no_step_is_tried_for_a_path_that_is_impossible():
    """A Volta has no dma-buf. The setting closes both paths, and its remedy would be tried for either."""
    conf = "etc/nccl.conf"
    setting = Environment(conf, "node", parse_conf("NCCL_IB_DISABLE=1\n", conf))
    node = after("volta-proprietary", environment.becomes(setting, conf))
    verdict = judge_node(node)

    (chain,) = plan.plan(node, verdict, "nccl")
    assert [(step.remedy.name, step.path) for step in chain] == [("clean-nccl-settings", "peermem")]
    for_nothing = work.steps(plan._search, node, verdict, "nccl", "dmabuf")
    assert 20 * for_nothing < work.steps(plan._search, node, verdict, "nccl", "peermem")


def steps(*remedies: Remedy) -> tuple[str, ...]:
    return tuple(sorted(remedy.name for remedy in remedies))


def full_at(*numbers: int) -> Node:
    """Eight GPUs without dma-buf in libibverbs; some have no room left in BAR1 (36 MiB are reserved)."""
    node = plain("ubuntu-6.8-h100")
    shown = tuple(
        SmiGpu(address=gpu.address, bar1_free_mib=36 if number in numbers else 37)
        for number, gpu in enumerate(gpus(node))
    )
    return after("ubuntu-6.8-h100", verbs_has_dmabuf.becomes(False), smi_memory.becomes(shown))


@pytest.mark.parametrize("numbers", [(0,), (5,), (7,), (1, 2)])
def test_the_gpu_that_lacks_most_decides_on_the_next_step(numbers):
    node = full_at(*numbers)
    (chain, *_) = what_then(node, judge_node(node), "nccl")
    steps = [(step.remedy.name, step.then.state.value, step.then.blocked_by) for step in chain]
    assert sorted(name for name, _, _ in steps) == ["enlarge-bar1", "upgrade-rdma-core"]
    assert [state for _, state, _ in steps] == ["blocked", "ready"]


@pytest.mark.parametrize(
    ("module", "steps"),
    [("nvidia", [["allow-module", "load-driver"]]), ("nvidia_drm", [["load-driver"]])],  # a near miss
)
def test_a_line_that_keeps_the_driver_itself_out_is_removed_before_it_is_loaded(module: str, steps):
    node = plain("ubuntu-6.8-h100")
    line = Directive(module, "/bin/false", "etc/modprobe.d/x.conf", 1)
    shut = configuration.becomes(replace(configuration(node), install=(line,)))
    node = node.after("derived", [shut, is_loaded.becomes(False, DRIVER)])
    found = plan.plan(node, judge_node(node), "nccl")
    assert [[step.remedy.name for step in chain] for chain in found] == steps
