"""Compares the predictor with every recorded session, the answers of real kernels, without QEMU."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import msgspec
import pytest
from lab.cache import LabError
from lab.cases import of_groups
from lab.compare import Comparison, Result, compare, counts
from lab.kernels import FLAVOURS
from lab.kernels import flavour as kernel_of
from lab.merge import merged
from lab.predictor import predict
from lab.profiles import profile

from lab import golden

SESSIONS = [(row.name, name) for row in FLAVOURS for name in golden.recorded(row.name)]


@functools.cache
def contents(flavour: str) -> Mapping[str, bytes]:
    return golden.read_contents(flavour)


@functools.cache
def judged(flavour: str, name: str) -> list[Comparison]:
    return compare(golden.read(flavour, name), contents(flavour), predict)


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_prediction_and_kernel_agree_on_every_case(flavour: str, name: str) -> None:
    wrong = [row for row in judged(flavour, name) if row.result in (Result.WRONG, Result.UNANSWERED)]
    assert not wrong, f"{counts(judged(flavour, name))}\n" + "\n".join(
        f"{row.result} {row.case}: {'; '.join(row.differences)}" for row in wrong
    )


def test_at_least_three_kernels_and_ten_profiles_are_recorded() -> None:
    assert len({flavour for flavour, _ in SESSIONS}) >= 3
    assert len({name for _, name in SESSIONS}) >= 10


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_session_has_all_cases_of_its_profile(flavour: str, name: str) -> None:
    recorded = [case.name for case in golden.read(flavour, name).cases]
    assert recorded == [case.name for case in of_groups(profile(name).groups, kernel_of(flavour))]


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_session_completed(flavour: str, name: str) -> None:
    session = golden.read(flavour, name)
    assert [case.name for case in session.cases if case.answer.exit_code is None] == []
    assert [case.name for case in session.cases if case.stuck] == []


def test_some_cases_can_be_taken_from_a_later_session_without_changing_the_rest() -> None:
    flavour, name = SESSIONS[0]
    old = golden.read(flavour, name)
    names = [case.name for case in old.cases]
    repaired = golden.Answer(0, "", (), True, (), "0")
    later = [
        msgspec.structs.replace(case, answer=repaired) if case.name == names[1] else case
        for case in old.cases
    ]
    now = msgspec.structs.replace(old, cases=tuple(later))
    both = merged(msgspec.structs.replace(old, cases=old.cases[:-1]), now, {names[1], names[-1]})
    assert [case.name for case in both.cases] == names
    assert both.cases[1].answer == repaired
    assert [evidence for _, evidence in golden.cases(both)] == [
        evidence for _, evidence in golden.cases(old)
    ]


def test_a_case_that_is_not_recorded_again_must_have_the_same_answer() -> None:
    flavour, name = SESSIONS[0]
    old = golden.read(flavour, name)
    other = msgspec.structs.replace(old.cases[0], answer=golden.Answer(9, "", (), True, (), "0"))
    now = msgspec.structs.replace(old, cases=(other, *old.cases[1:]))
    with pytest.raises(LabError, match="should not be recorded"):
        merged(old, now, {old.cases[-1].name})
