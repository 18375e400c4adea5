"""A rule takes away a capability from every program, or a path from the program that it is about."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from gdrkit.catalogue import consumer_of, every_consumer, every_rule
from gdrkit.evidence.target import open_host
from gdrkit.node import Node
from gdrkit.rules.capabilities import Capability, ConsumerPath, Need
from gdrkit.rules.rule import Rule
from gdrkit.verdict.check_results import check_results
from tests.evidence_nodes import build


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Rule, frozenset[Need]]:
    """What each rule takes away, by declaration and by its results on a few nodes."""
    needs: dict[Rule, frozenset[Need]] = {}
    for name in ("a100-nccl-2.20", "rhel-9-mofed", "gh200"):
        node = Node(open_host(str(build(name, tmp_path_factory.mktemp(name)))))
        for ruling in check_results(node, every_rule()):
            declared = () if ruling.subject is None else ruling.rule.takes(ruling.subject)
            seen = needs.get(ruling.rule, frozenset())
            needs[ruling.rule] = seen | {*declared, *ruling.takes}
    return needs


def test_no_rule_takes_a_capability_and_a_programs_own_path(taken: Mapping[Rule, frozenset[Need]]):
    for rule, needs in taken.items():
        assert len({isinstance(need, ConsumerPath) for need in needs}) <= 1, rule.code


def test_a_rule_that_takes_a_programs_path_names_that_program(taken: Mapping[Rule, frozenset[Need]]):
    told = 0
    for rule, needs in taken.items():
        for need in needs:
            if isinstance(need, ConsumerPath):
                told += 1
                assert consumer_of(need.consumer).title in rule.page, rule.code
    assert told > 10


@pytest.mark.parametrize("name", ["nccl", "ucx"])
def test_a_rule_named_for_a_program_takes_only_from_it(name: str, taken: Mapping[Rule, frozenset[Need]]):
    """Or from one that reads the same settings, as NIXL does with its own UCX."""
    named = [needs for rule, needs in taken.items() if rule.code.startswith(f"{name}-")]
    alike = {one.name for one in every_consumer() if set(consumer_of(name).switches) & set(one.switches)}
    assert named
    for need in frozenset().union(*named):
        assert isinstance(need, ConsumerPath) and need.consumer in {name, *alike}


def test_a_gap_in_the_nodes_libibverbs_affects_every_program(taken: Mapping[Rule, frozenset[Need]]):
    """verbs-lacks-dmabuf is named for the library that all programs call, not for the program `verbs`."""
    (needs,) = (needs for rule, needs in taken.items() if rule.code == "verbs-lacks-dmabuf")
    assert needs <= {Capability.DMABUF}
