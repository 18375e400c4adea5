"""What must not matter does not matter, and missing evidence makes unknown."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from machines.cases import Case, case
from machines.changes import hide, renamed
from machines.judge import Answer, ask, ask_about
from machines.truth import CONSUMERS

from machines import compose, sosreport
from tests.seed import SEED


def states(answer: Answer) -> dict[str, str]:
    return {name: answer.report["consumers"][name]["state"] for name in CONSUMERS}


def codes(answer: Answer) -> dict[str, set[str]]:
    return {status: set(answer.codes(status)) for status in ("failed", "warning", "note", "unknown")}


def drawn(seed: int, count: int) -> list[Case]:
    """Half of so many machines, every day another one."""
    numbers = random.Random(f"{SEED} {seed}").sample(range(count), count // 2)
    return [case(seed, number) for number in sorted(numbers)]


@pytest.mark.slow
def test_order_names_and_addresses_change_nothing():
    different = []
    for made in drawn(31, 25):
        first = ask(made.machine)
        changed, _ = renamed(made.machine, random.Random(made.number))
        second = ask(changed)
        if first.report and (states(first), codes(first), first.modprobe) != (
            states(second),
            codes(second),
            second.modprobe,
        ):
            different.append(
                (made.number, [fault.name for fault in made.faults], states(first), states(second))
            )

    assert different == [], f"GDRKIT_SEED={SEED}"


@pytest.mark.slow
def test_a_sosreport_says_less_and_nothing_else():
    """It lacks modules and most of sysfs: a state is that of the bundle, or unknown."""
    different = []
    for made in drawn(33, 25):
        first = ask(made.machine)
        with tempfile.TemporaryDirectory() as folder:
            second = ask_about(sosreport.write(made.machine, Path(folder)))
        assert second.report, second.complaint
        for name, state in states(second).items():
            if state not in (states(first)[name], "unknown"):
                different.append((made.number, name, states(first)[name], state))

    assert different == [], f"GDRKIT_SEED={SEED}"


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "hidden", "count"), [(32, 1, 20), (35, 2, 20)])
def test_hidden_evidence_moves_a_state_only_toward_unknown(seed: int, hidden: int, count: int):
    """Or from active to ready: that a path is in use is then not seen."""
    different, judged = [], 0
    for made in drawn(seed, count):
        source = random.Random(made.number)
        first = ask(made.machine, modprobe=False)
        tree, paths = hide(made.machine, source, hidden)
        with tempfile.TemporaryDirectory() as folder:
            second = ask_about(tree.write(Path(folder), compose.head(made.machine)))
        if not first.report or not second.report:
            continue
        judged += 1
        for name, state in states(second).items():
            before = states(first)[name]
            if state not in (before, "unknown") and (before, state) != ("active", "ready"):
                different.append((made.number, paths, name, before, state))

    assert different == [], f"GDRKIT_SEED={SEED}"
    assert judged > count // 3
