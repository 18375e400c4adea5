"""`gdr explain` and `gdr nccl` give one answer to one log."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.cli.explained import ExplainedText
from gdrkit.cli.schema import schema_of
from tests.jobs.samples import SAMPLES, Sample, info

BOUNCED = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
DIRECT = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA")
POST = (
    "It was fast before the update.\n\nAnybody?\n\nThese are the lines:\n\n{}\nThanks a lot\nfor any help\n"
)
EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_of(ExplainedText, "gdrkit.explanation/1")))


@pytest.fixture
def both(tmp_path: Path, capsys):
    """The exit codes and documents of both commands for one text."""

    def run(text: str):
        path = tmp_path / "job.log"
        path.write_text(text)
        found = []
        for command in ("nccl", "explain"):
            code = main([command, "--json", str(path)])
            found.append((code, json.loads(capsys.readouterr().out)))
        return found

    return run


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_log_gives_the_same_legs_reasons_and_exit_code(both, sample: Sample):
    (code, job), (explained, explanation) = both(sample.text)

    assert explained == code
    assert explanation["job"] == job
    assert SCHEMA.is_valid(explanation)


@pytest.mark.parametrize(
    ("log", "more", "code", "state"),
    [
        (BOUNCED, "", 2, "blocked"),
        (BOUNCED, EINVAL, 2, "blocked"),
        (DIRECT, "", 0, "active"),
        (DIRECT, EINVAL, 3, "active"),  # the causes of modprobe's error stay open
    ],
)
def test_a_post_with_a_log_has_the_worse_exit_code_of_both(both, log: str, more: str, code: int, state: str):
    (_, job), (explained, explanation) = both(POST.format(log + more))

    assert explained == code
    assert (explanation["job"]["verdict"]["state"], explanation["job"]["counts"]) == (state, job["counts"])


ONE_LINE = (
    "NET/IB : Got completion from peer 10.1.2.3<4012> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
    "NET/Plugin: No plugin found (libnccl-net.so)",
    "Bootstrap : Using eth0:10.1.2.3<0>",
)


@pytest.mark.parametrize("words", ONE_LINE)
def test_a_single_line_of_a_log_gives_the_same_exit_code(both, words: str):
    (code, job), (explained, explanation) = both(info("n1:7", 0, words))

    assert (explained, explanation["job"]) == (code, job)


def test_lines_without_the_process_that_printed_them_are_a_log_if_the_text_has_little_else(both):
    (code, job), (explained, explanation) = both(
        "NCCL_IB_DISABLE set by environment to 1.\nUsing network Socket\n"
    )

    assert (explained, explanation["job"], code) == (code, job, 2)


@pytest.mark.parametrize(
    "text",
    [
        EINVAL,
        "",
        POST.format("NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),  # perhaps an example
        POST.format("Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"),
    ],
)
def test_a_text_without_a_log_has_no_job(tmp_path: Path, capsys, text: str):
    path = tmp_path / "post.txt"
    path.write_text(text + "hello\n")
    main(["explain", "--json", str(path)])

    assert json.loads(capsys.readouterr().out)["job"] is None


CHANNEL = "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"


@pytest.mark.parametrize(
    "line",
    [CHANNEL, f"{CHANNEL}/GDRDMA", CHANNEL.removeprefix("NCCL INFO "), f"> {CHANNEL}"],
)
def test_a_line_without_its_process_decides_nothing_in_a_post(both, line: str):
    (code, job), (explained, explanation) = both(POST.format(line))

    assert (code, explained, job["verdict"]["state"]) == (3, 3, "unknown")
    assert explanation["answer"]["kind"] == "nothing"


@pytest.mark.parametrize(("line", "expected"), [(CHANNEL, 2), (f"{CHANNEL}/GDRDMA", 0)])
def test_a_line_without_its_process_counts_between_other_output(both, line: str, expected: int):
    (code, _), (explained, _) = both(f"{line}\nstep=1 loss=2.5\nstep=2 loss=2.4\nstep=3 loss=2.3\n")

    assert (code, explained) == (expected, expected)


def test_a_line_with_its_process_counts_in_a_post_beside_one_without(both):
    (code, job), (explained, explanation) = both(POST.format(f"{CHANNEL}\n\n{DIRECT}"))

    assert (code, explained) == (0, 0)
    assert explanation["job"]["counts"] == job["counts"]


def test_the_page_has_the_legs_after_the_explanation(tmp_path: Path, capsys):
    path = tmp_path / "post.txt"
    path.write_text(BOUNCED)
    main(["explain", str(path)])
    page = capsys.readouterr().out

    assert (
        page.index("Also shown") < page.index("The job of the NCCL log") < page.index("through host memory")
    )


HARMLESS = info("n1:7", 0, "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation")
COMPLETION = "NET/IBP:Got completion from peer 10.1.2.3<4012> with status=12 opcode=3 len=0 vendor err 129\n"


def test_a_harmless_line_does_not_head_a_log_that_is_not_direct(both):
    _, (code, explanation) = both(HARMLESS + BOUNCED)
    answer = explanation["answer"]

    assert (code, answer["kind"]) == (2, "several")
    assert "0 direct, 1 bounced" in answer["sentence"]
    assert both(HARMLESS)[1][1]["answer"]["kind"] == "harmless", "alone, it stays what it is"


def test_the_codes_of_the_log_are_the_causes_of_the_answer(both):
    refused = info("n1:7", 0, "NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR")
    _, (_, explanation) = both(HARMLESS + refused)

    codes = [cause["code"] for cause in explanation["answer"]["others"]]
    assert "efa-p2p-unavailable" in codes


def test_one_completion_alone_has_one_exit_code(both):
    (code, _), (explained, _) = both(COMPLETION)

    assert (code, explained) == (3, 3), "nothing shows whether GPU memory was accessed directly"
