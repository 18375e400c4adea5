"""The command `gdr explain`."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import forked

GDR = Path(sys.executable).parent / "gdr"
EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"


def gdr(*arguments: str, stdin: str = "") -> forked.Ended:
    return forked.gdr(["explain", *arguments], given=stdin)


@pytest.mark.parametrize("arguments", [(), ("-",)])
def test_standard_input_is_read_without_a_file_name(arguments):
    answer = gdr(*arguments, stdin=EINVAL)

    assert answer.code == 3
    assert "peermem-stub" in answer.out


def test_a_file_gives_json(tmp_path):
    post = tmp_path / "post.txt"
    post.write_text(EINVAL)

    document = json.loads(gdr(str(post), "--json").out)

    assert document["schema"] == "gdrkit.explanation/1"
    assert document["machines"][0]["open"][0]["line"] == 1


def test_quiet_prints_nothing():
    answer = gdr("-q", stdin=EINVAL)

    assert (answer.code, answer.out) == (3, "")


def test_verbose_prints_more():
    assert len(gdr("-v", stdin=EINVAL).out) > len(gdr(stdin=EINVAL).out)


def test_the_logs_of_a_job_are_another_command_to_give(tmp_path):
    """A folder of `srun -o job-%t.out`, its files, and their pattern, which a shell may leave as it is."""
    logs = [tmp_path / f"job-{rank}.out" for rank in (0, 1)]
    for log in logs:
        log.write_text(EINVAL)

    for words, code in (([tmp_path], 66), (logs, 64), ([tmp_path / "job-*.out"], 66)):
        answer = gdr(*map(str, words))
        assert answer.code == code and "`gdr nccl` reads all logs of a job" in answer.err
    assert "gdr nccl" not in gdr(str(tmp_path / "job-2.out")).err


def test_empty_input_is_refused():
    answer = gdr()

    assert answer.code == 66
    assert "no text: the input is empty" in answer.err


def test_a_nonexistent_file_is_reported_in_one_line():
    answer = gdr("/nonexistent/post.txt")

    assert answer.code == 66
    assert answer.err.splitlines() == ["gdr explain: /nonexistent/post.txt: no such file or directory"]


@pytest.mark.parametrize(("typed", "code"), [(f"{EINVAL}\n", 3), ("", 66)])
def test_a_terminal_is_read_until_the_end_of_input(typed: str, code: int):
    keyboard, terminal = pty.openpty()
    os.write(keyboard, f"{typed}\x04".encode())
    answer = subprocess.run([GDR, "explain"], stdin=terminal, capture_output=True, text=True, timeout=20)
    os.close(keyboard)
    os.close(terminal)

    assert answer.returncode == code
    assert answer.stderr.startswith("Paste, then Ctrl-D\n")
    assert ("peermem-stub" in answer.stdout) == bool(typed)


def test_an_argument_with_a_space_that_is_no_file_is_the_text(tmp_path):
    assert "peermem-stub" in gdr(EINVAL).out
    file = tmp_path / "an error"
    file.write_text("Couldn't allocate MR with error=14\n")
    assert "peermem-not-loaded" in gdr(str(file)).out
    assert gdr("/nonexistent").code == 66


def test_a_zero_byte_in_a_log_does_not_make_it_a_program():
    answer = gdr(stdin="# before the crash:\0\0\n" * 9 + EINVAL)
    assert answer.code == 3 and "peermem-stub" in answer.out


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, lambda text: text.decode().encode("utf-16")])
def test_a_packed_text_and_utf_16_are_read(pack, tmp_path):
    (tmp_path / "log").write_bytes(pack(EINVAL.encode()))
    assert gdr("--json", str(tmp_path / "log")).out == gdr("--json", stdin=EINVAL).out != ""


def test_a_text_in_an_older_encoding_is_read(tmp_path):
    (tmp_path / "log").write_bytes(f"Zugriff verweigert f\xfcr:\n{EINVAL}".encode("latin-1"))
    assert "peermem-stub" in gdr(str(tmp_path / "log")).out


@pytest.mark.parametrize(
    "content, why",
    [
        (
            gzip.compress(bytes(512) + EINVAL.encode()),
            "not a text file\n  gdr doctor judges bundles and sosreports",
        ),
        (b"\x7fELF\2\1\1".ljust(64, b"\0") + EINVAL.encode(), "not a text file"),
        (b"\xff\xd8\xff\xe0" + bytes(range(1, 256)) * 9, "not a text file"),  # a photograph
        (gzip.compress(EINVAL.encode())[:-9], "the gzip file is cut off\n  unpack it, and pipe the text in"),
        (gzip.compress(bytes(17 << 20)), "the gzip file decompresses to more than 16777216 bytes"),
        (lzma.compress(b"\n"), "the input is empty"),
    ],
    ids=["archive", "program", "photograph", "cut-off", "large", "empty"],
)
def test_what_is_no_text_is_not_called_well(content, why, tmp_path):
    (tmp_path / "x").write_bytes(content)
    ran = gdr(str(tmp_path / "x"))
    assert (ran.code, ran.out) == (66, "")
    assert why in ran.err


def test_words_typed_without_quotation_marks_are_a_text():
    """A sentence at the prompt gets an answer with a next command, and no error about arguments."""
    question = "how do I know whether GPUDirect works"
    bare, quoted = gdr(*question.split()), gdr(question)

    assert (bare.code, bare.out) == (3, quoted.out)
    assert "No output of a program" in bare.out and "Run `gdr doctor` on the machine" in bare.out


def test_a_question_in_place_of_a_command_is_told_which_command_answers_it():
    answer = forked.gdr(["how do I know whether GPUDirect works?"])

    assert answer.code == 64
    assert "gdr doctor judges this machine" in answer.err and 'gdr explain "TEXT"' in answer.err


VALUES = "driver:\n  kernelModuleType: proprietary\n  rdma:\n    enabled: true\n    useHostMofed: true\n"
APPLICATION = (
    "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: gpu-operator}\nspec:\n  source:\n"
    "    helm:\n      valuesObject:\n        driver: {rdma: {enabled: true}}\n"
)


@pytest.mark.parametrize("text", [VALUES, APPLICATION])
def test_what_the_check_does_not_judge_has_no_fault(text):
    answer = gdr("-", stdin=text)

    assert answer.code == 3
    assert "does not judge all of this text" in answer.out and "helm template" in answer.out
    assert "certain" not in answer.out and "Correct these" not in answer.out


def test_a_fault_beside_what_is_not_judged_is_one():
    answer = gdr(
        "-", stdin=f"{VALUES}---\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nspec: {{driver: 3}}\n"
    )

    assert "How sure: certain" in answer.out and "2 faults in" in answer.out


def test_an_object_of_a_cluster_has_nothing_that_helm_would_render():
    live = "apiVersion: a.io/v1\nkind: SriovNetworkNodeState\nstatus:\n  syncStatus: Busy\n"
    answer = gdr("-", stdin=live)
    assert "does not judge all of this text" in answer.out and "helm" not in answer.out
