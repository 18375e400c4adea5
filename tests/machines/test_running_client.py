"""What runs outranks what lies on disk: nv_peer_mem is loaded, and whatever is wrong with nvidia-peermem's
file, its settings or its container closes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from machines.cases import case
from machines.faults import FAULTS
from machines.judge import written

from gdrkit.catalogue import every_rule, rule_of
from gdrkit.evidence.target import open_host
from gdrkit.facts.driver import DRIVER, driver_version
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.node import Node
from gdrkit.rules.rule import ADDRESS, Failed, Rule, Unknown
from gdrkit.verdict.check_results import check_results

OF_BOTH_CLIENTS = {
    "gpu-cdmm",  # memory that no client can register
    "rdma-lacks-peer-api",  # what both register with
}
NOT_PLANTED = {
    "driver-ignores-peer-memory",  # true of each machine with an EFA
    "init-failed",  # never fails: a file does not show it
    "module-unsupported",  # no machine has the setting of SUSE's modprobe
    "peermem-registration-refused",  # refused because of its predecessor, or once, by a line of the log
}
ABOUT_PEERMEM = {
    rule.code
    for rule in every_rule()
    if rule.takes(PEERMEM) == (ADDRESS,) and rule.code not in OF_BOTH_CLIENTS
}
NO_PAGE_TABLE_OF_ITS_TIME = "580.65.06"
"""The driver whose page tables have a version that nv_peer_mem was not made for, and does not look at."""


@pytest.fixture(scope="module", params=sorted(ABOUT_PEERMEM - NOT_PLANTED))
def planted(request: pytest.FixtureRequest) -> Iterator[tuple[Rule, Node]]:
    """A rule about nvidia-peermem, and a machine on which it fails and nothing serves in its place."""
    code = request.param
    fault = next(fault for fault in FAULTS if code in fault.codes[:1])
    machine = case(11, 0, fault.name).machine
    with written(machine) as path:
        yield rule_of(code), Node(open_host(str(path)))


def blocking(node: Node) -> set[object]:
    """The subjects of rules about nvidia-peermem that close the path on this node, or may."""
    return {
        result.subject
        for result in check_results(node, [rule_of(code) for code in ABOUT_PEERMEM])
        if isinstance(result.outcome, Failed | Unknown) and ADDRESS in result.takes
    }


def beside(node: Node, version: str) -> Node:
    return node.after("", [is_loaded.becomes(True, LEGACY), driver_version.becomes(version)])


@pytest.mark.parametrize("version", ["570.158.01", NO_PAGE_TABLE_OF_ITS_TIME])
def test_nothing_about_peermem_counts_while_its_predecessor_serves(planted, version: str):
    rule, node = planted
    outcomes = [result.outcome for result in check_results(node, [rule])]

    assert any(isinstance(outcome, Failed) for outcome in outcomes)
    assert blocking(node) != set()
    assert blocking(beside(node, version)) <= {DRIVER}
