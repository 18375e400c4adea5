"""The predictor against every recorded session: real kernels' answers, without QEMU."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import pytest
from lab.compare import Comparison, Word, compare, counts
from lab.kernels import FLAVOURS
from lab.predictor import predict

from lab import golden

SESSIONS = [(row.name, name) for row in FLAVOURS for name in golden.recorded(row.name)]


@functools.cache
def contents(flavour: str) -> Mapping[str, bytes]:
    return golden.read_contents(flavour)


@functools.cache
def judged(flavour: str, profile: str) -> list[Comparison]:
    return compare(golden.read(flavour, profile), contents(flavour), predict)


@pytest.mark.parametrize(("flavour", "profile"), SESSIONS)
def test_prediction_and_kernel_agree_on_every_case(flavour: str, profile: str) -> None:
    wrong = [row for row in judged(flavour, profile) if row.word in (Word.WRONG, Word.UNANSWERED)]
    assert not wrong, f"{counts(judged(flavour, profile))}\n" + "\n".join(
        f"{row.word} {row.case}: {'; '.join(row.differences)}" for row in wrong
    )


def test_at_least_three_kernels_and_ten_profiles_are_recorded() -> None:
    assert len({flavour for flavour, _ in SESSIONS}) >= 3
    assert len({profile for _, profile in SESSIONS}) >= 10


@pytest.mark.parametrize(("flavour", "profile"), SESSIONS)
def test_every_session_went_to_its_end_as_planned(flavour: str, profile: str) -> None:
    session = golden.read(flavour, profile)
    assert [case.name for case in session.cases if case.answer.exit_code is None] == []
    assert [case.name for case in session.cases if case.stuck] == []
