"""Comparison of predictions with a kernel's answers."""

from __future__ import annotations

import msgspec
from lab.compare import Result, judge, normal_error, normal_log, same_answer

from gdrkit.loader import Prediction
from lab.golden import Answer, Evidence, Recorded, applied, delta

REFUSED = ("modprobe: ERROR: could not insert 'x': Invalid argument",)


def predicted(**changes: object) -> Prediction:
    fields: dict[str, object] = {
        "module": "x",
        "exit_code": 1,
        "loaded": False,
        "tainted": 0,
        "stderr": REFUSED,
    }
    return Prediction(**(fields | changes))  # type: ignore[arg-type]


def case(**changes: object) -> Recorded:
    answer: dict[str, object] = {
        "exit_code": 1,
        "stderr": "modprobe: ERROR: could not insert 'x': Invalid argument\n",
        "log": (),
        "loaded": False,
        "new": (),
        "tainted": "0",
        "ran": (),
    }
    return Recorded("c", ("modprobe", "x"), "x", Answer(**(answer | changes)), Evidence())  # type: ignore[arg-type]


def test_an_equal_prediction_agrees() -> None:
    assert judge(predicted(), case()) == (Result.AGREES, ())


def test_another_error_is_wrong_and_both_errors_are_shown() -> None:
    result, differences = judge(
        predicted(stderr=("modprobe: ERROR: could not insert 'x': Exec format error",)), case()
    )
    assert result is Result.WRONG
    assert "Exec format error" in differences[0] and "Invalid argument" in differences[0]


def test_a_missing_log_line_is_wrong() -> None:
    assert judge(predicted(), case(log=("x: disagrees about version of symbol y",)))[0] is Result.WRONG


def test_a_wrong_prediction_that_names_a_missing_check_is_unanswered() -> None:
    prediction = predicted(exit_code=0, unless=("module-crc-mismatch",))
    assert judge(prediction, case())[0] is Result.UNANSWERED


def test_it_is_open_if_a_bundle_cannot_show_what_decides() -> None:
    prediction = predicted(exit_code=0, unless=("module-crc-mismatch",))
    undecided = msgspec.structs.replace(case(), open_because="which build runs")
    assert judge(prediction, undecided) == (Result.OPEN, ())
    assert judge(predicted(exit_code=0), undecided)[0] is Result.WRONG


def test_a_result_may_be_left_open_if_an_init_ran() -> None:
    assert judge(predicted(result_unknown=True), case(ran=("x",)))[0] is Result.OPEN


def test_a_result_left_open_is_wrong_if_no_init_ran() -> None:
    assert judge(predicted(result_unknown=True), case(ran=()))[0] is Result.WRONG


def test_a_dependency_whose_init_failed_leaves_the_result_open() -> None:
    assert judge(predicted(result_unknown=True), case(ran=("dependency",)))[0] is Result.OPEN


def test_a_dependency_whose_init_succeeded_does_not_leave_the_result_open() -> None:
    assert (
        judge(predicted(result_unknown=True), case(ran=("dependency",), new=("dependency",)))[0]
        is Result.WRONG
    )


def test_the_log_before_init_must_be_correct_even_if_the_result_is_open() -> None:
    taint = "x: loading out-of-tree module taints kernel."
    recorded = case(ran=("x",), log=(taint, "x: hello"))
    assert judge(predicted(result_unknown=True, kernel_log=(taint,)), recorded)[0] is Result.OPEN
    assert (
        judge(predicted(result_unknown=True, kernel_log=("x: something else",)), recorded)[0] is Result.WRONG
    )


def test_without_a_trace_a_new_module_has_run_its_init() -> None:
    assert judge(predicted(result_unknown=True), case(ran=None, loaded=True))[0] is Result.OPEN
    assert judge(predicted(result_unknown=True), case(ran=None))[0] is Result.WRONG


def test_only_libkmods_own_pointers_are_normalized_and_never_its_lines() -> None:
    text = "modprobe: ERROR: ../libkmod/libkmod-module.c:1047 command_do() Error running install command"
    assert normal_error(text) != normal_error(text.replace("1047", "990"))
    assert normal_error("ctx=0x55d4 path=/lib/a") != normal_error("ctx=0x55d4 path=/lib/b")


def test_stack_traces_are_removed_and_the_line_before_them_is_kept() -> None:
    lines = (
        "do_init_module: 'x'->init suspiciously returned 3, it should follow 0/-E convention",
        "CPU: 0 PID: 107 Comm: modprobe Tainted: G           OE      6.1.0 #1",
        "Hardware name: QEMU Standard PC", "Call Trace:", " <TASK>", " dump_stack_lvl+0x44/0x5c",
        " ? vm_mmap_pgoff+0x103/0x180", "RIP: 0033:0x7f630ff80829", "RAX: ffffffffffffffda RBX: 0",
        " </TASK>", "x: hello",
    )  # fmt: skip
    assert normal_log(lines) == (lines[0], "x: hello")


def test_lines_about_a_slow_cpu_are_removed() -> None:
    lines = (
        "clocksource: Long readout interval, skipping watchdog check: cs_nsec: 1 wd_nsec: 2",
        "x: hello",
    )
    assert normal_log(lines) == ("x: hello",)


def test_the_log_of_two_boots_is_compared_without_their_traces() -> None:
    first, second = case(log=("a", "RAX: 1")).answer, case(log=("a", "RAX: 2")).answer
    assert same_answer(first, second) == ()
    assert same_answer(first, case(exit_code=0).answer)


def test_a_delta_applied_to_the_evidence_before_gives_the_evidence_after() -> None:
    before = Evidence(links={"a": "b", "gone": "x"}, facts={"user": "root"})
    after = Evidence(links={"a": "c", "new": "d"}, facts={"user": "root"})
    assert applied(before, delta(before, after)) == after


# -- inits with unknown results, and what comes after them ----------------------------------------------

BEFORE, AFTER = (
    "a: module license 'Pro' taints kernel.",
    "x: module uses symbols s from proprietary module a",
)


def assuming(**changes: object) -> Prediction:
    fields: dict[str, object] = {
        "assumes": ("a",), "kernel_log": (BEFORE, AFTER), "certain_lines": 1, "inserted": ("a", "x")
    }  # fmt: skip
    return predicted(**(fields | changes))


def test_lines_predicted_after_a_failed_init_may_be_missing() -> None:
    open_result = assuming(result_unknown=True, exit_code=0, loaded=True)
    assert judge(open_result, case(ran=("a",), log=(BEFORE,)))[0] is Result.OPEN
    assert judge(open_result, case(ran=("a",), log=(AFTER,)))[0] is Result.WRONG


def test_lines_predicted_after_a_successful_init_must_be_logged() -> None:
    open_result = assuming(result_unknown=True, exit_code=0, loaded=True)
    well: dict[str, object] = {"exit_code": 0, "loaded": True, "ran": ("a", "x"), "new": ("a", "x")}
    assert judge(open_result, case(log=(BEFORE, "a: hello", AFTER), **well))[0] is Result.OPEN
    assert judge(open_result, case(log=(BEFORE, "a: hello"), **well))[0] is Result.WRONG


def test_another_error_is_open_if_an_init_failed_that_was_assumed_to_succeed() -> None:
    other = "modprobe: ERROR: could not insert 'x': No such device\n"
    assert judge(assuming(), case(ran=("a",), log=(BEFORE,), stderr=other))[0] is Result.OPEN
    assert judge(assuming(), case(ran=("a",), new=("a",), log=(BEFORE,), stderr=other))[0] is Result.WRONG
    assert judge(assuming(assumes=()), case(ran=("a",), log=(BEFORE,), stderr=other))[0] is Result.WRONG


def test_an_assumption_does_not_excuse_a_wrong_exit_code_or_earlier_error() -> None:
    assert judge(assuming(), case(ran=("a",), log=(BEFORE,), exit_code=0))[0] is Result.WRONG
    assert judge(assuming(), case(ran=("a",), stderr="other"))[0] is Result.WRONG
