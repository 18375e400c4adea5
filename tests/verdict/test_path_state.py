"""Which failures nothing can cure."""

from __future__ import annotations

import pytest

from gdrkit.rules.gpu_kinds import gpu_integrated
from gdrkit.rules.rule import Failed, Outcome, Passed
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.path_state import is_permanent


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
