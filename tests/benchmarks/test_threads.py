"""The judge of public threads: which class an answer has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.threads import Answer, Thread, judge, main, run, table, threads, unjudgeable
from msgspec.structs import replace

DECIDED = Thread(
    half="first",
    deciding=True,
    cause="memlock-limit",
    also=("gpu-mig",),
    must_not=("bar1-small", "peermem-stub as certain", "port-down as cause"),
    text="1.txt",
)
UNDECIDED = replace(DECIDED, deciding=False, cause="-")
UNCODED = replace(DECIDED, cause="~the image lacks a library", words=("image", "libfoo|library"))


def given(headline: str, *, listed: tuple[str, ...] = (), established: tuple[str, ...] = ()) -> Answer:
    """An answer whose headline names a cause first; its sentence is the same word."""
    return Answer(
        headline=headline or "nothing",
        cause=headline,
        certain=False,
        established=established,
        listed=(*established, *listed),
        sentences=(headline,),
    )


def test_the_cause_in_the_headline_is_right_and_one_below_it_is_listed():
    assert judge(DECIDED, given("memlock-limit")) == "RIGHT"
    assert judge(DECIDED, given("gpu-mig", listed=("memlock-limit",))) == "LISTED"
    assert judge(DECIDED, given("", listed=("memlock-limit",))) == "LISTED"
    assert judge(DECIDED, given("", established=("memlock-limit",))) == "LISTED"


def test_another_cause_is_missed_where_the_text_decides_and_silent_where_it_does_not():
    assert judge(DECIDED, given("gpu-mig", listed=("no-gpu",))) == "MISSED"
    assert judge(DECIDED, given("")) == "MISSED"
    assert judge(UNDECIDED, given("")) == "SILENT"
    assert judge(UNDECIDED, given("no-gpu", listed=("no-gpu",))) == "SILENT"


def test_a_headline_that_establishes_what_the_truth_lacks_is_garbage():
    assert judge(UNDECIDED, given("no-gpu", established=("no-gpu",))) == "GARBAGE"
    assert judge(UNDECIDED, given("gpu-mig", established=("gpu-mig",))) == "SILENT"
    assert judge(UNDECIDED, None) == "GARBAGE"
    assert judge(DECIDED, replace(given(""), headline=" ")) == "GARBAGE"


def test_a_forbidden_cause_is_wrong_in_the_headline_and_where_it_is_established():
    assert judge(DECIDED, given("bar1-small")) == "WRONG"
    assert judge(DECIDED, given("memlock-limit", established=("memlock-limit", "bar1-small"))) == "WRONG"
    assert judge(DECIDED, given("memlock-limit", listed=("bar1-small",))) == "RIGHT"


def test_what_is_forbidden_as_certain_may_lead_and_what_is_forbidden_as_cause_may_be_established():
    assert judge(DECIDED, given("peermem-stub", listed=("memlock-limit",))) == "LISTED"
    assert judge(DECIDED, given("memlock-limit", established=("peermem-stub",))) == "WRONG"
    assert judge(DECIDED, replace(given("peermem-stub"), certain=True)) == "WRONG"
    assert judge(DECIDED, given("port-down")) == "WRONG"
    assert judge(DECIDED, given("memlock-limit", established=("port-down",))) == "RIGHT"


def test_what_is_forbidden_for_a_subject_may_lead_for_another():
    thread = replace(DECIDED, must_not=("memlock-limit for client",), cause="gpu-mig")
    assert judge(thread, replace(given("memlock-limit"), headline="limits of the server")) == "MISSED"
    assert judge(thread, replace(given("memlock-limit"), headline="limits of the client")) == "WRONG"


def test_a_cause_without_a_code_is_right_if_all_its_words_are_in_the_headline():
    assert judge(UNCODED, replace(given(""), headline="This image lacks libfoo.so")) == "RIGHT"
    assert judge(UNCODED, replace(given(""), headline="This image is old")) == "MISSED"
    assert judge(replace(UNCODED, codes=("no-gpu",)), given("no-gpu")) == "RIGHT"


def test_words_that_no_sentence_may_have_are_wrong():
    said = replace(given("memlock-limit"), sentences=("memlock-limit", "module: loaded"))
    assert judge(replace(DECIDED, never="module: loaded$"), said) == "WRONG"
    assert judge(replace(DECIDED, never="module: not loaded$"), said) == "RIGHT"


def test_a_cause_without_a_code_that_nothing_judges_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    head = "half\taddress\trepository\tlanguage\tkind\tdeciding\tcause\talso\tmust_not\ttext"
    row = "first\thttps://example.com/\ta/b\ten\tlog\tyes\t~too late\t-\t-\t1.txt"
    truth = tmp_path / "threads.tsv"
    truth.write_text(f"{head}\n{row}\n")
    uncoded = tmp_path / "threads-uncoded.tsv"
    uncoded.write_text("text\tcodes\twords\tnever\n")
    assert unjudgeable(threads(truth)) == ["1.txt"]
    assert main([str(tmp_path), "--truth", str(truth)]) == 64
    assert "1.txt" in capsys.readouterr().err
    uncoded.write_text("text\tcodes\twords\tnever\n1.txt\t\tlate & too\t\n")
    (tmp_path / "1.txt").write_text(
        "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.1.0\n"
    )
    assert main([str(tmp_path), "--truth", str(truth), "-v"]) == 0
    assert "MISSED   1.txt" in capsys.readouterr().out


def test_a_text_that_the_folder_lacks_is_an_error_of_the_caller(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        run(DECIDED, tmp_path)


def test_the_table_counts_decided_texts_and_all_texts():
    lines = table([(DECIDED, "RIGHT"), (DECIDED, "MISSED"), (UNDECIDED, "SILENT")]).splitlines()
    assert lines[1].split() == ["RIGHT", "1", "50.0", "%", "1", "33.3", "%"]
    assert lines[3].split() == ["SILENT", "0", "0.0", "%", "1", "33.3", "%"]
    assert lines[-1].split() == ["texts", "2", "3"]


def test_every_thread_of_the_first_half_can_be_judged():
    found = threads(Path("benchmarks/threads.tsv"))
    assert len(found) >= 200
    assert unjudgeable(thread for thread in found if thread.half == "first") == []


def test_every_pattern_of_the_truth_can_be_searched():
    """A pattern that does not compile would stop the judge after an answer was seen."""
    for thread in threads(Path("benchmarks/threads.tsv")):
        for pattern in (*thread.words, thread.never):
            re.compile(pattern, re.IGNORECASE)
