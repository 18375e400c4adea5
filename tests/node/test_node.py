"""A node computes each fact once, and knows what the answer is based on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.evidence import (
    Command,
    Confidence,
    EvidenceAbsent,
    EvidenceMissing,
    Missing,
    MissingReason,
    QuestionKind,
    Source,
    TextOrigin,
)
from gdrkit.evidence.missing import denied, timed_out
from gdrkit.formats.errors import FormatError
from gdrkit.node import (
    KEPT_BYTES,
    Node,
    each_known,
    fact,
    first_collected,
    first_of,
    if_absent,
    if_missing,
    likely,
    observation,
    seek,
)
from tests.memory_host import MemoryHost

UNAME = Command(("uname", "-r"), ("sos_commands/kernel/uname_-r",))


@fact
def number(node: Node, name: str) -> int:
    text = node.text(name)
    if not text.strip().isdigit():
        raise FormatError(f"expected digits, got {text!r}")
    return int(text)


@fact
def total(node: Node) -> int:
    return number(node, "a") + number(node, "b")


@fact
def double(node: Node) -> int:
    return 2 * total(node)


@observation(total)
def log(node: Node) -> str:
    return node.text("log")


@fact
def upper_log(node: Node) -> str:
    return log(node).upper()


def node(**more: bytes) -> Node:
    return Node(MemoryHost({"a": b"1", "b": b"2", "log": b"it was three", **more}, absent={"gone"}))


def test_nothing_is_read_until_asked_and_everything_is_read_once():
    here = node()
    assert here.host.opened == []

    assert (double(here), double(here), total(here)) == (6, 6, 3)
    assert here.host.opened == ["a", "b"]


def test_a_file_read_by_two_facts_is_read_once_and_cited_by_both():
    @fact
    def length(node: Node) -> int:
        return len(node.read("log"))

    here = node()
    assert (length(here), log(here)) == (12, "it was three")
    after = here.after("add more", [number.becomes(10, "a")])
    assert length(after) == 12
    for question in (length, log):
        assert here.trail(question).sources == (Source("log"),)
    assert here.host.opened == ["log"]


@pytest.mark.parametrize(("size", "times"), [(0, 1), (KEPT_BYTES, 1), (KEPT_BYTES + 1, 2)])
def test_a_large_file_is_not_kept_but_read_again(size: int, times: int):
    here = node(large=bytes(size))
    assert [len(here.read("large")) for _ in range(2)] == [size, size]
    assert here.host.opened == ["large"] * times
    assert KEPT_BYTES == 65_536


def test_an_error_is_remembered_too():
    here = node()
    for _ in range(2):
        with pytest.raises(EvidenceAbsent):
            here.read("gone")
    assert here.host.opened == ["gone"]


def test_a_trail_names_the_sources_of_all_called_facts_in_the_order_of_reading():
    here = node()
    double(here)

    trail = here.trail(double)
    assert [source.name for source in trail.sources] == ["a", "b"]
    assert (total, ()) in trail.facts and (number, ("b",)) in trail.facts


def test_a_trail_is_complete_for_an_answer_that_was_remembered():
    here = node()
    total(here)
    double(here)

    assert {source.name for source in here.trail(double).sources} == {"a", "b"}


def test_a_fact_that_is_met_again_does_not_end_a_trail():
    @fact
    def outer(node: Node) -> int:
        return total(node) + number(node, "a") + number(node, "c")

    here = Node(MemoryHost({"a": b"1", "b": b"2", "c": b"3"}))
    outer(here)

    assert [source.name for source in here.trail(outer).sources] == ["a", "b", "c"]


def test_what_was_not_collected_is_missing_for_every_fact_based_on_it():
    here = Node(MemoryHost({"a": b"1"}))
    for question in (total, double):
        with pytest.raises(EvidenceMissing) as caught:
            question(here)
        assert caught.value.missing == Missing("b", MissingReason.NOT_COLLECTED, "cat /b", QuestionKind.READ)


class Refusing(MemoryHost):
    """Raises the same error for every path."""

    def __init__(self, reason: EvidenceMissing) -> None:
        super().__init__()
        self.reason = reason

    def read(self, path: str) -> bytes:
        raise self.reason

    def list(self, path: str) -> tuple[str, ...]:
        raise self.reason

    def exists(self, path: str) -> bool:
        raise self.reason


@pytest.mark.parametrize(
    ("reason", "read", "names"),
    [
        (denied("a", "hidden"), "sudo cat /a (hidden)", "sudo ls /a (hidden)"),
        (timed_out("a"), "cat /a", "ls /a"),
        (EvidenceMissing(Missing("a", MissingReason.UNDECIDED, "cat /a; ls")), "cat /a; ls", "cat /a; ls"),
    ],
)
def test_the_suggested_command_matches_the_kind_of_access(reason, read, names):
    here = Node(Refusing(reason))
    asked = []
    for question in (here.read, here.list, here.exists):
        with pytest.raises(EvidenceMissing) as caught:
            question("a")
        asked.append((caught.value.missing.ask, caught.value.missing.why))

    assert asked == [(words, reason.missing.why) for words in (read, names, names)]


@fact
def third_line(node: Node, path: str) -> str:
    node.read(path)
    node.cite(path, text="c", line=3)
    return node.describe_line(path, 2)


def test_a_cited_line_has_the_number_it_has_in_the_file():
    here = Node(MemoryHost({"x": "a\nb\nc\n"}))

    assert third_line(here, "x") == "x:2"
    assert here.trail(third_line, "x").sources == (
        Source("x", lines=(2,)),
        Source("x", "line 3", "c", lines=(3,)),
    )


def test_a_cited_line_of_an_excerpt_has_the_number_it_has_in_the_original_text():
    origins = {
        "x": TextOrigin((7, 9, 12), "log"),
        "y": TextOrigin((1, 2, 3), "run at line 1", numbered=False),
    }
    here = Node(MemoryHost({"x": "a\nb\nc\n", "y": "a\nb\nc\n"}, origins=origins))

    assert (third_line(here, "x"), third_line(here, "y")) == ("log, line 9", "run at line 1")
    assert here.trail(third_line, "x").sources == (
        Source("x", lines=(9,)),
        Source("x", "line 12", "c", lines=(12,)),
    )
    assert (here.describe_line("x"), here.describe_line("z")) == ("log", "z")


def test_marks_of_all_called_facts_are_joined_in_one_source():
    @fact
    def outer(node: Node) -> int:
        found = number(node, "a")
        node.mark("a", 4)
        node.mark("elsewhere", 1)
        return found

    here = Node(MemoryHost({"a": b"1"}))
    outer(here)

    assert here.trail(outer).sources == (Source("a", lines=(4,)),)


def test_garbled_content_is_missing_evidence_and_named_by_its_file():
    here = node(a=b"libkmod: ERROR: could not open /proc/modules")
    with pytest.raises(EvidenceMissing) as caught:
        total(here)

    assert (caught.value.missing.source, caught.value.missing.why) == ("a", MissingReason.GARBLED)


def test_a_fact_can_take_absent_as_an_answer_which_is_cited():
    @fact
    def there(node: Node) -> bool:
        return bool(if_absent(b"", node.read, "gone"))

    here = node()
    assert there(here) is False
    assert here.trail(there).sources == (Source("gone", text="absent"),)


def test_not_collected_is_never_taken_for_absent():
    @fact
    def there(node: Node) -> bool:
        return bool(if_absent(b"", node.read, "unseen"))

    with pytest.raises(EvidenceMissing) as caught:
        there(node())
    assert not isinstance(caught.value, EvidenceAbsent)


def test_a_supposed_step_changes_answers_based_on_it_and_no_others():
    here = node()
    double(here)
    after = here.after("add more", [number.becomes(10, "a")])

    assert (double(after), total(after), number(after, "b")) == (24, 12, 2)
    assert (double(here), total(here)) == (6, 3)
    assert here.host.opened == ["a", "b"]  # nothing is read a second time


def test_an_answer_based_on_a_supposition_is_assumed():
    after = node().after("add more", [number.becomes(10, "a")])
    double(after)

    assert after.trail(double).confidence is after.confidence(double) is Confidence.ASSUMED
    number(after, "b")
    assert after.trail(number, "b").confidence is Confidence.CERTAIN


def test_a_step_may_make_an_answer_uncertain():
    unsure = Missing("a", MissingReason.STALE, "look again")
    after = node().after("rebuild", [number.becomes(unsure, "a")])
    with pytest.raises(EvidenceMissing) as caught:
        double(after)

    assert caught.value.missing == unsure


@pytest.mark.parametrize("asked_before", [True, False])
def test_an_observation_is_stale_once_what_it_saw_changes_even_two_facts_below(asked_before):
    here = node()
    assert upper_log(here) == "IT WAS THREE"
    if asked_before:
        total(here)
    after = here.after("add more", [number.becomes(10, "a"), *([] if asked_before else [total.becomes(9)])])
    for question in (log, upper_log):
        with pytest.raises(EvidenceMissing) as caught:
            question(after)
        assert caught.value.missing.why is MissingReason.STALE
    assert upper_log(here) == "IT WAS THREE"


def test_an_observation_stays_stale_after_later_steps():
    later = node().after("one", [total.becomes(9)]).after("two", [number.becomes(7, "c")])
    with pytest.raises(EvidenceMissing):
        log(later)


def test_a_default_for_missing_evidence_covers_absent_and_not_collected():
    @fact
    def seen(node: Node) -> tuple[bytes, ...]:
        return tuple(if_missing(b"?", node.read, name) for name in ("gone", "unseen", "a"))

    here = node()
    assert seen(here) == (b"?", b"?", b"1")
    assert here.trail(seen).sources == (Source("gone", text="absent"), Source("a"))


def test_a_default_keeps_the_fact_in_the_trail_with_its_subject():
    @fact
    def seen(node: Node) -> int:
        return if_missing(0, number, node, "unseen")

    here = node()
    assert seen(here) == 0
    assert (number, ("unseen",)) in here.trail(seen).facts


@pytest.mark.parametrize("default", [if_absent, if_missing])
def test_a_default_does_not_hide_other_errors(default):
    with pytest.raises(ZeroDivisionError):
        default(0, lambda: 1 // 0)


def test_the_best_source_with_an_answer_gives_its_confidence_to_the_fact():
    @fact
    def size(node: Node) -> int:
        return first_of(lambda: number(node, "unseen"), likely(node, by_name))

    def by_name() -> int:
        return 5

    here = node()
    assert size(here) == 5
    assert here.trail(size).sources[-1] == Source("by name", confidence=Confidence.LIKELY)
    assert here.trail(size).confidence is Confidence.LIKELY


def test_a_weaker_source_that_is_not_asked_or_has_no_answer_does_not_lower_confidence():
    @fact
    def size(node: Node) -> int:
        return first_of(likely(node, unanswered), lambda: number(node, "a"), likely(node, int))

    def unanswered() -> int:
        return number(node(), "unseen")

    here = node()
    assert size(here) == 1
    assert here.trail(size).confidence is Confidence.CERTAIN


def test_where_no_source_has_an_answer_the_first_error_is_raised():
    with pytest.raises(EvidenceMissing) as caught:
        first_of(lambda: number(node(), "x"), lambda: number(node(), "y"))
    assert caught.value.missing.source == "x"


def test_the_first_collected_source_decides_even_if_it_is_absent():
    here = node()
    assert first_collected(lambda: here.read("unseen"), lambda: here.read("a")) == b"1"
    with pytest.raises(EvidenceAbsent):
        first_collected(lambda: here.read("gone"), lambda: here.read("a"))
    assert first_of(lambda: here.read("gone"), lambda: here.read("a")) == b"1"
    with pytest.raises(EvidenceMissing) as caught:
        first_collected(lambda: here.read("unseen"), lambda: here.read("unseen too"))
    assert caught.value.missing.source == "unseen"


def test_seek_skips_an_unreadable_candidate_if_another_is_found_and_raises_otherwise():
    here = node()
    assert seek(("unseen", "b"), lambda name: number(here, name) == 2) == "b"
    assert seek(("a", "b"), lambda name: number(here, name) == 9) is None
    with pytest.raises(EvidenceMissing):
        seek(("unseen", "b"), lambda name: number(here, name) == 9)


def test_each_known_skips_missing_evidence_and_is_lazy():
    here = node()
    answers = each_known(lambda name: number(here, name), ("unseen", "a", "b"))
    assert next(answers) == 1
    assert here.host.opened == ["unseen", "a"]
    assert list(answers) == [2]


def test_a_command_is_cited_by_its_line():
    @fact
    def release(node: Node) -> str:
        return node.run(UNAME).strip()

    here = Node(MemoryHost(commands={("uname", "-r"): b"6.1.0\n"}))
    assert release(here) == "6.1.0"
    assert here.trail(release).sources == (Source("uname -r"),)


KEYWORDS = {
    "asked": 'number(here, name="b")',
    "supposed": 'number.becomes(10, name="b")',
    "trailed": 'here.trail(number, name="b")',
    "confidence": 'here.confidence(number, name="b")',
}
"""Each call means the subject "b"; if the keyword were ignored, it would mean no subject at all."""


@pytest.mark.parametrize("call", KEYWORDS.values(), ids=KEYWORDS)
def test_a_subject_given_by_its_name_is_refused_when_it_runs(call):
    with pytest.raises(TypeError, match="unexpected keyword argument 'name'"):
        eval(call, {"here": node(), "number": number})


def test_a_fact_whose_subject_has_a_default_is_refused_when_it_is_made():
    """The answers with and without the default would be kept apart, and a remedy would set only one."""
    with pytest.raises(TypeError, match="port: an argument of a fact cannot have a default"):

        @fact
        def port(node: Node, number: int = 1) -> int:
            return number


SNIPPET = """
from gdrkit.node import Fact, Node, fact, if_absent, if_missing, observation

@fact
def number(node: Node, name: str) -> int: return 1

@observation(number)
def log(node: Node) -> str: return ""

def right(here: Node) -> tuple[int, str]:
    here.after("step", [number.becomes(1, "b"), log.becomes("")])
    here.trail(number, "b"), here.trail(log), here.confidence(number, "b")
    names: tuple[str, ...] = if_absent((), here.list, "etc")
    perhaps: int | None = if_missing(None, number, here, "b")
    return if_missing(0, number, here, "b"), log(here)

def wrong(here: Node) -> None:
"""
WRONG = (
    *KEYWORDS.values(),
    "number(here)",
    "number(here, 2)",
    'number.becomes("one", "b")',
    'log(here, "b")',
    "if_missing(0, number, here)",
    "if_missing(0, number, here, 2)",
    'if_absent(None, number, here, "b") + 1',
)


def test_the_type_checker_rejects_keywords_and_missing_or_wrongly_typed_subjects(tmp_path):
    pytest.importorskip("mypy", reason="run: uv sync --all-groups --all-extras")
    (tmp_path / "snippet.py").write_text(SNIPPET + "".join(f"    {call}\n" for call in WRONG))
    source = Path(__file__).parent.parent / "src"
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={os.devnull}"]
    found = subprocess.run(
        [*command, "snippet.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(source)},
        capture_output=True,
        text=True,
    )
    first = SNIPPET.count("\n") + 1
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error: " in line}
    assert lines == {*range(first, first + len(WRONG))}, found.stdout + found.stderr
