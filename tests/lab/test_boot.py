"""Boots real kernels, and checks that the golden files are still correct and that random cases agree.

`pytest -m lab` runs these; without QEMU they are skipped, except in CI.
"""

from __future__ import annotations

import os

import pytest
from lab.cache import apt_command, missing_packages
from lab.cases import of_groups
from lab.commands import SEED
from lab.compare import Result, compare, same_answer
from lab.kernels import flavour, kernel
from lab.predictor import predict
from lab.profiles import profile
from lab.random_cases import generate
from lab.session import boot

from lab import golden

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(
        bool(missing_packages()) and os.environ.get("CI") != "true", reason=f"run: {apt_command()}"
    ),
]
KERNEL = "6.1-amd64"
RANDOM_SEED, RANDOM_CASES = 2026, 12


@pytest.mark.parametrize("name", ["plain", "sb-db"])
def test_the_kernel_still_answers_as_in_the_golden_file(name: str) -> None:
    chosen, runs = profile(name), kernel(KERNEL)
    old = golden.answers_on(golden.read(KERNEL, name), runs.release)
    cases = of_groups(chosen.groups, flavour(KERNEL))
    assert [case.name for case in cases] == list(old)
    now, _ = golden.of_session(boot(runs, chosen, cases, seed=SEED, collect=()))
    changed = {case.name: same_answer(old[case.name], case.answer) for case in now.cases}
    assert {case: difference for case, difference in changed.items() if difference} == {}


@pytest.mark.parametrize("name", ["plain", "sb-db"])
def test_prediction_and_kernel_agree_on_random_cases(name: str) -> None:
    print(f"seed {RANDOM_SEED}")  # pytest shows it on failure; `lab random --seed` makes the same cases
    cases = generate(RANDOM_SEED, RANDOM_CASES)
    recorded, contents = golden.of_session(boot(kernel(KERNEL), profile(name), cases, seed=RANDOM_SEED))
    rows = compare(recorded, contents, predict)
    assert len(rows) == RANDOM_CASES
    assert [row for row in rows if row.result in (Result.WRONG, Result.UNANSWERED)] == []
