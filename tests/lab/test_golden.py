"""Compares the predictor with every recorded session, the answers of real kernels, without QEMU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import msgspec
import pytest
from lab.cache import LabError
from lab.cases import CASES, of_groups
from lab.compare import Comparison, Result, compare, counts
from lab.kernels import FLAVOURS
from lab.kernels import flavour as kernel_of
from lab.merge import merged, require_same
from lab.predictor import predict

from gdrkit.loader import Prediction
from gdrkit.node import Node
from lab import golden, words

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
    session = golden.read(flavour, name)
    cases = of_groups(session.profile.groups, kernel_of(flavour))
    assert [case.name for case in session.cases] == [row.name for row in cases]


ENDLESS = {"nested-other-release"}
"""Its install line runs the same modprobe, with the same install line: recorded as timed out."""


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_session_completed(flavour: str, name: str) -> None:
    session = golden.read(flavour, name)
    unanswered = {case.name for case in session.cases if case.answer.exit_code is None}
    assert unanswered <= ENDLESS
    assert [case.name for case in session.cases if case.stuck] == []


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_case_was_set_up_without_an_error_that_its_row_does_not_allow(flavour: str, name: str) -> None:
    allowed = {case.name for case in CASES if case.complains}
    complaining = {case.name for case in golden.read(flavour, name).cases if case.complaints}
    assert complaining <= allowed


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_result_has_the_word_and_the_reason_that_are_kept_for_it(flavour: str, name: str) -> None:
    now = {row.case: row.word for row in judged(flavour, name)}
    kept = words.expected(flavour, name, now)
    changed = {case: f"{kept[case]} is now {word}" for case, word in now.items() if word != kept[case]}
    assert changed == {}, "if this is intended: python -m lab words -k KERNEL"


def unknown(prediction: Prediction) -> Prediction:
    return msgspec.structs.replace(prediction, result_unknown=True)


def unknown_where_an_init_refuses(prediction: Prediction) -> Prediction:
    refused = prediction.reason in ("peermem-stub", "peermem-registration-refused", "module-bad-parameter")
    return unknown(prediction) if refused else prediction


def unknown_where_a_check_may_be_missing(prediction: Prediction) -> Prediction:
    return msgspec.structs.replace(prediction, unless=("module-corrupt",))


@pytest.mark.parametrize(
    "hedge", [unknown, unknown_where_an_init_refuses, unknown_where_a_check_may_be_missing]
)
def test_a_predictor_that_no_longer_dares_to_answer_is_noticed(
    hedge: Callable[[Prediction], Prediction],
) -> None:
    flavour = "6.1-amd64"
    name = "sig-enforce" if hedge is unknown_where_a_check_may_be_missing else "plain"

    def hedging(node: Node, case: golden.Recorded) -> Prediction:
        return hedge(predict(node, case))

    now = {
        row.case: row.word
        for row in compare(golden.read(flavour, name), contents(flavour), hedging)
        if row.result in (Result.AGREES, Result.OPEN)  # what the comparison alone does not notice
    }
    kept = words.expected(flavour, name, now)
    assert [case for case, word in now.items() if word != kept[case]] != []


@pytest.mark.parametrize(("flavour", "name"), SESSIONS)
def test_every_open_result_has_a_reason(flavour: str, name: str) -> None:
    assert [row.case for row in judged(flavour, name) if row.result is Result.OPEN and not row.reason] == []


@pytest.mark.parametrize(("flavour", "name"), [row for row in SESSIONS if "ubuntu" not in row[0]])
def test_every_guest_says_which_distribution_it_is(flavour: str, name: str) -> None:
    session = golden.read(flavour, name)
    _, evidence = next(golden.cases(session))
    text = Node(golden.host(evidence, contents(flavour))).text("etc/os-release")
    of_archive = {
        "debian": 'VERSION_ID="12"',
        "debian-13": 'VERSION_ID="13"',
        "ubuntu": 'VERSION_ID="22.04"',
    }
    assert of_archive[kernel_of(flavour).archive.name] in text


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


def test_the_taint_of_what_ran_before_in_a_boot_is_not_a_difference() -> None:
    flavour, name = SESSIONS[0]
    old = golden.read(flavour, name)
    tainted = msgspec.structs.replace(old.cases[0].answer, tainted="4099")
    first = msgspec.structs.replace(old.cases[0], answer=tainted)
    now = msgspec.structs.replace(old, cases=(first, *old.cases[1:]))
    assert merged(old, now, {old.cases[-1].name}).cases[0].answer == old.cases[0].answer


def test_another_profile_is_refused_before_a_guest_starts() -> None:
    flavour, name = SESSIONS[0]
    old = golden.read(flavour, name)
    with pytest.raises(LabError, match="record all its cases again"):
        require_same(old, old.kernel, msgspec.structs.replace(old.profile, why="another"), old.seed)


def test_a_case_that_is_not_recorded_again_must_have_the_same_answer() -> None:
    flavour, name = SESSIONS[0]
    old = golden.read(flavour, name)
    other = msgspec.structs.replace(old.cases[0], answer=golden.Answer(9, "", (), True, (), "0"))
    now = msgspec.structs.replace(old, cases=(other, *old.cases[1:]))
    with pytest.raises(LabError, match="should not be recorded"):
        merged(old, now, {old.cases[-1].name})


def test_answers_of_another_release_name_that_release():
    recorded = golden.read("6.1-amd64", "plain")
    renamed = golden.answers_on(recorded, "6.1.0-99-amd64")
    naming = [case for case in recorded.cases if recorded.kernel.release in case.answer.stderr]

    assert naming and list(renamed) == [case.name for case in recorded.cases]
    for case in naming:
        expected = case.answer.stderr.replace(recorded.kernel.release, "6.1.0-99-amd64")
        assert renamed[case.name].stderr == expected
