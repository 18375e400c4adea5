"""Which failures nothing can cure, and which count for a direction."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Missing, MissingReason
from gdrkit.node import Node
from gdrkit.rules.capabilities import Direction
from gdrkit.rules.gpu_kinds import gpu_integrated
from gdrkit.rules.read_request_small import read_request_small
from gdrkit.rules.rule import Failed, Outcome, Passed, Unknown
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.path_state import is_permanent, judge_path
from tests.memory_host import MemoryHost


@pytest.mark.parametrize(
    ("outcome", "permanent"),
    [
        (Failed(seen="GB10", expected="another", subject="gpu"), True),
        (Failed(seen="GB10", expected="another", subject="gpu", permanent=frozenset()), False),
        (Passed("H100"), False),
    ],
)
def test_only_a_failure_is_permanent_and_only_where_its_rule_says_so(outcome: Outcome, permanent: bool):
    result = CheckResult(gpu_integrated, "gpu", outcome)
    assert is_permanent(result, "dmabuf", "verbs") is permanent


@pytest.mark.parametrize(
    ("direction", "codes"),
    [
        ("send", ("read-request-small", "gpu-integrated")),
        ("both", ("gpu-integrated",)),
        ("receive", ("gpu-integrated",)),
    ],
)
def test_what_stops_only_sending_is_skipped_for_the_other_direction(
    direction: Direction, codes: tuple[str, ...]
):
    unknown = Unknown(Missing("a file", MissingReason.NOT_COLLECTED, "cat"))
    results = [CheckResult(rule, "gpu", unknown) for rule in (read_request_small, gpu_integrated)]
    found = judge_path(Node(MemoryHost()), results, "dmabuf", "verbs", direction)
    assert tuple(one.rule.code for one in found.open) == codes
