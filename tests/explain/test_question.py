"""The command to run next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.evidence import Confidence
from gdrkit.explain.explanation import EstablishedProblem
from gdrkit.explain.question import PARTLY_SHOWN_WEIGHT, _weight, question
from gdrkit.rules.rule import Layer
from tests.explain.explaining import EINVAL, explained


def test_a_machine_that_never_can_ends_no_question_of_another():
    (machine,) = explained(EINVAL + "\n").machines
    integrated = EstablishedProblem(
        code="gpu-integrated", layer=Layer.HARDWARE, subject="GB10", seen="GB10",
        confidence=Confidence.CERTAIN, blocks=(), proofs=(),
    )  # fmt: skip
    spark = replace(machine, name="spark", established=(integrated,))
    weights = {code: 1.0 for line in machine.open for code in line.codes}

    assert question((spark,), set(), weights) is None
    for machines in ((spark, machine), (machine, spark)):
        found = question(machines, set(), weights)
        assert found is not None and found.machine == machine.name


@pytest.mark.parametrize(
    ("typed", "weight"),
    [
        (set(), 1),
        ({""}, 1),
        ({"lspci -nn"}, 1),
        ({"sudo dmesg -T"}, PARTLY_SHOWN_WEIGHT),
        ({"lspci", "dmesg"}, PARTLY_SHOWN_WEIGHT),
    ],
)
def test_a_command_of_which_the_text_shows_a_part_counts_half(typed: set[str], weight: float):
    (line,) = explained(EINVAL + "\n").machines[0].open
    code = "peermem-stub"
    deciding = next(row for row in rule_of(code).reported_by if "dmesg" in row.command)
    assert _weight(code, line, deciding, typed) == weight
