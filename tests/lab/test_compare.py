"""How a prediction is held against what a kernel did."""

from __future__ import annotations

from lab.compare import Word, judge, normal_error, normal_log, same_answer

from gdrkit.loader import Prediction
from lab.golden import Answer, Evidence, Recorded, applied, delta

REFUSED = ("modprobe: ERROR: could not insert 'x': Invalid argument",)


def said(**changes: object) -> Prediction:
    told: dict[str, object] = {"module": "x", "exit_code": 1, "loaded": False, "stderr": REFUSED}
    return Prediction(**(told | changes))  # type: ignore[arg-type]


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


def test_equal_words_agree() -> None:
    assert judge(said(), case()) == (Word.AGREES, ())


def test_another_error_is_wrong_and_both_are_shown() -> None:
    word, differences = judge(
        said(stderr=("modprobe: ERROR: could not insert 'x': Exec format error",)), case()
    )
    assert word is Word.WRONG
    assert "Exec format error" in differences[0] and "Invalid argument" in differences[0]


def test_a_missing_log_line_is_wrong() -> None:
    assert judge(said(), case(log=("x: disagrees about version of symbol y",)))[0] is Word.WRONG


def test_an_error_is_no_confident_one_where_the_prediction_names_the_check_that_it_could_not_make() -> None:
    told = said(exit_code=0, unless=("module-crc-mismatch",))
    assert judge(told, case())[0] is Word.UNANSWERED


def test_a_result_may_be_left_open_where_an_init_ran() -> None:
    assert judge(said(result_unknown=True), case(ran=("x",)))[0] is Word.OPEN


def test_a_result_left_open_is_wrong_where_no_init_ran() -> None:
    assert judge(said(result_unknown=True), case(ran=()))[0] is Word.WRONG


def test_a_dependency_whose_init_failed_leaves_the_result_open() -> None:
    assert judge(said(result_unknown=True), case(ran=("dependency",)))[0] is Word.OPEN


def test_a_dependency_whose_init_succeeded_leaves_nothing_open() -> None:
    assert judge(said(result_unknown=True), case(ran=("dependency",), new=("dependency",)))[0] is Word.WRONG


def test_what_is_logged_before_init_must_be_right_even_where_the_result_is_open() -> None:
    taint = "x: loading out-of-tree module taints kernel."
    told = case(ran=("x",), log=(taint, "x: hello"))
    assert judge(said(result_unknown=True, kernel_log=(taint,)), told)[0] is Word.OPEN
    assert judge(said(result_unknown=True, kernel_log=("x: something else",)), told)[0] is Word.WRONG


def test_where_the_guest_could_not_trace_a_module_that_came_has_run_its_init() -> None:
    assert judge(said(result_unknown=True), case(ran=None, loaded=True))[0] is Word.OPEN
    assert judge(said(result_unknown=True), case(ran=None))[0] is Word.WRONG


def test_only_libkmods_own_lines_and_pointers_are_normalized() -> None:
    text = "modprobe: ERROR: ../libkmod/libkmod-module.c:1047 command_do() Error running install command"
    assert normal_error(text) == normal_error(text.replace("1047", "990"))
    assert normal_error("ctx=0x55d4 path=/lib/a") != normal_error("ctx=0x55d4 path=/lib/b")


def test_stack_traces_go_and_the_line_before_them_stays() -> None:
    lines = (
        "do_init_module: 'x'->init suspiciously returned 3, it should follow 0/-E convention",
        "CPU: 0 PID: 107 Comm: modprobe Tainted: G           OE      6.1.0 #1",
        "Hardware name: QEMU Standard PC", "Call Trace:", " <TASK>", " dump_stack_lvl+0x44/0x5c",
        " ? vm_mmap_pgoff+0x103/0x180", "RIP: 0033:0x7f630ff80829", "RAX: ffffffffffffffda RBX: 0",
        " </TASK>", "x: hello",
    )  # fmt: skip
    assert normal_log(lines) == (lines[0], "x: hello")


def test_what_speaks_of_a_slow_processor_alone_is_left_out() -> None:
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


# -- inits that nobody knows, and what comes after them ------------------------------------------------

BEFORE, AFTER = (
    "a: module license 'Pro' taints kernel.",
    "x: module uses symbols s from proprietary module a",
)


def assuming(**changes: object) -> Prediction:
    told: dict[str, object] = {"assumes": ("a",), "kernel_log": (BEFORE, AFTER), "certain_lines": 1}
    return said(**(told | changes))


def test_what_is_said_after_an_init_that_failed_need_not_come() -> None:
    open_result = assuming(result_unknown=True, exit_code=0, loaded=True)
    assert judge(open_result, case(ran=("a",), log=(BEFORE,)))[0] is Word.OPEN
    assert judge(open_result, case(ran=("a",), log=(AFTER,)))[0] is Word.WRONG


def test_what_is_said_after_an_init_that_went_well_must_come() -> None:
    open_result = assuming(result_unknown=True, exit_code=0, loaded=True)
    well: dict[str, object] = {"exit_code": 0, "loaded": True, "ran": ("a", "x"), "new": ("a", "x")}
    assert judge(open_result, case(log=(BEFORE, "a: hello", AFTER), **well))[0] is Word.OPEN
    assert judge(open_result, case(log=(BEFORE, "a: hello"), **well))[0] is Word.WRONG


def test_another_error_is_open_where_an_init_failed_that_was_expressly_assumed_to_succeed() -> None:
    other = "modprobe: ERROR: could not insert 'x': No such device\n"
    assert judge(assuming(), case(ran=("a",), log=(BEFORE,), stderr=other))[0] is Word.OPEN
    assert judge(assuming(), case(ran=("a",), new=("a",), log=(BEFORE,), stderr=other))[0] is Word.WRONG
    assert judge(assuming(assumes=()), case(ran=("a",), log=(BEFORE,), stderr=other))[0] is Word.WRONG


def test_such_an_assumption_excuses_neither_the_exit_code_nor_what_came_before_it() -> None:
    assert judge(assuming(), case(ran=("a",), log=(BEFORE,), exit_code=0))[0] is Word.WRONG
    assert judge(assuming(), case(ran=("a",), stderr="other"))[0] is Word.WRONG
