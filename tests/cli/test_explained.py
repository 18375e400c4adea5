"""`gdr explain` and `gdr nccl` give one answer to one log."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from gdrkit.cli import main
from gdrkit.cli.explained import LogReader
from gdrkit.cli.explained_document import ExplainedText
from gdrkit.cli.schema import schema_of
from gdrkit.explain.lines.transcript import Gap
from gdrkit.explain.logged_job import OtherEvidence
from tests.jobs.large_job import large_job
from tests.jobs.samples import SAMPLES, Sample, info, warn
from tests.programs.nccl.diagnostic_reports import LOGS

BOUNCED = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0")
HALF = info("n1:7", 0, "Using network IB", "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA")
DIRECT = HALF + info("n2:7", 0, "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA")
POST = (
    "It was fast before the update.\n\nAnybody?\n\nThese are the lines:\n\n{}\nThanks a lot\nfor any help\n"
)
EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
SCHEMA = jsonschema.Draft202012Validator(json.loads(schema_of(ExplainedText, "gdrkit.explanation/1")))


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
        (HALF, "", 3, "unknown"),  # what rank 1 does no line shows
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


@pytest.mark.parametrize(("line", "expected"), [(CHANNEL, 2), (f"{CHANNEL}/GDRDMA", 3)])
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

    assert page.index("Also shown") < page.index("The job of the log") < page.rindex("through host memory")


HARMLESS = info("n1:7", 0, "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation")
COMPLETION = "NET/IBP:Got completion from peer 10.1.2.3<4012> with status=12 opcode=3 len=0 vendor err 129\n"


def test_a_harmless_line_does_not_head_a_log_that_is_not_direct(both):
    _, (code, explanation) = both(HARMLESS + BOUNCED)
    answer = explanation["answer"]

    assert (code, answer["kind"]) == (2, "several")
    assert "0 direct, 1 through host memory" in answer["sentence"]
    assert both(HARMLESS)[1][1]["answer"]["kind"] == "harmless", "alone, it stays what it is"


def test_the_codes_of_the_log_are_the_causes_of_the_answer(both):
    refused = info("n1:7", 0, "NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR")
    _, (_, explanation) = both(HARMLESS + refused)

    codes = [cause["code"] for cause in explanation["answer"]["others"]]
    assert "efa-p2p-unavailable" in codes


def test_one_completion_alone_has_one_exit_code(both):
    (code, _), (explained, _) = both(COMPLETION)

    assert (code, explained) == (3, 3), "nothing shows whether GPU memory was accessed directly"


@pytest.mark.parametrize(
    ("name", "kind", "words", "others"),
    [
        ("healthy", "nothing", "no proof of GPUDirect RDMA", []),
        ("iommu-on-groups-differ", "several", "iommu-translating is possible", ["iommu-translating"]),
        ("one-slow-gpu", "several", "rank 14 (dgx-12) is slow", ["link-degraded", "acs-redirect"]),
        ("dmabuf-run-failed-everywhere", "several", "no rate on all 8 pairs", ["dmabuf-mr-refused"]),
    ],
)
def test_a_report_of_nccls_diagnostics_heads_the_answer(
    both, name: str, kind: str, words: str, others: list[str]
):
    """The header of the report is not what fails, and a report alone proves no path."""
    (code, job), (explained, explanation) = both((LOGS / f"{name}.log").read_text())
    answer = explanation["answer"]

    assert (code, explained, answer["kind"]) == (3, 3, kind)
    assert words in answer["sentence"]
    assert [one["code"] for one in answer["others"]][: len(others)] == others
    assert not any("Diagnostics ===" in line["text"] for line in answer["lines"])
    assert explanation["job"] == job
    assert SCHEMA.is_valid(explanation)


def test_settings_of_a_report_are_the_answer(both):
    (code, _), (explained, explanation) = both((LOGS / "environment-differs.log").read_text())
    answer = explanation["answer"]

    assert (code, explained) == (2, 2)
    assert answer["cause"] == "env-differs-between-ranks"
    assert explanation["job"]["findings"][0]["code"] == "gdr-level-too-low"


POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata:
  name: cluster-policy
spec:
  driver:
    enabled: true
  driver:
    version: "570.133.20"
"""


@pytest.mark.parametrize("text", [POLICY, f"Our recipe:\n\n```yaml\n{POLICY}```\nThen it hangs.\n"])
def test_a_manifest_has_the_faults_of_config_check_with_the_lines_of_the_text(
    tmp_path: Path, capsys, text: str
):
    (tmp_path / "post.txt").write_text(text)
    main(["explain", str(tmp_path / "post.txt")])
    page = capsys.readouterr().out
    number = text[: text.rindex("  driver:")].count("\n") + 1
    assert "policy-duplicate-key" in page
    assert f"line {number}: error: spec.driver" in page
    assert "missing-key" in page


def test_the_devices_of_one_link_of_a_spark_are_half_of_its_port(tmp_path: Path, capsys):
    setting = "export NCCL_IB_HCA=rocep1s0f0,rocep1s0f1"
    (tmp_path / "half.sh").write_text(f"{setting}\n")
    assert main(["explain", str(tmp_path / "half.sh")]) == 1
    assert "roceP2p1s0f0,roceP2p1s0f1 as well" in " ".join(capsys.readouterr().out.split())
    (tmp_path / "whole.sh").write_text(f"{setting},roceP2p1s0f0,roceP2p1s0f1\n")
    main(["explain", str(tmp_path / "whole.sh")])
    assert "half of a port" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "heading"),
    [
        ("$ ibdev2netdev\nrocep1s0f1 port 1 ==> enp1s0f1np1 (Up)\n", "What the text shows"),
        (
            "  1073741824 268435456     float    none      -1   1000.0   3.04  3.04      0\n",
            "No failure shown",
        ),
    ],
)
def test_ports_that_are_up_are_no_all_clear_beside_a_setting_that_leaves_half_of_one_out(
    tmp_path: Path, capsys, more: str, heading: str
):
    (tmp_path / "post.txt").write_text(f"{more}$ env | grep NCCL\nNCCL_IB_HCA=rocep1s0f1\n")
    assert main(["explain", str(tmp_path / "post.txt")]) in (1, 3)
    page = capsys.readouterr().out
    assert page.splitlines()[0] == heading
    assert "roceP2p1s0f1 as well" in " ".join(page.split())


def test_the_job_does_not_list_what_the_rest_of_the_text_excludes(tmp_path: Path, capsys):
    """The list of devices shows that there is one, and that the setting names another."""
    devices = (
        "$ ibv_devices\n    device          \t   node GUID\n    ------          \t----------------\n"
        "    roceP3p1s0      \ta088c20300aabbcc\n"
    )
    log = info("g2:12", 0, "NCCL_IB_HCA set to mlx5_0", "NET/IB : No device found.", "Using network Socket")
    (tmp_path / "post.txt").write_text(devices + log)
    main(["explain", "-v", str(tmp_path / "post.txt")])
    page = " ".join(capsys.readouterr().out.split())
    assert "cause: hca-not-selected" in page
    assert "no-rdma-device" not in page


@pytest.mark.parametrize(
    ("line", "state", "codes"),
    [
        (
            "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 7 >= 4)",
            "unknown",
            {"pair-cross-socket"},
        ),
        ("NET/IB : **GPU Direct RDMA Disabled for HCA 0 'mlx5_2'**", "blocked", {"driver-proprietary"}),
        ("NET/IB : No device found.", "blocked", {"no-rdma-device", "hca-not-selected"}),
    ],
)
def test_a_line_has_the_same_causes_in_both_commands(both, line: str, state: str, codes: set[str]):
    (_, job), (_, explanation) = both(info("n1:7", 0, line))
    reasons = (*job["why_not_direct"], *job["refused"])
    left = {
        one["code"]
        for machine in explanation["machines"]
        for line in machine["open"]
        for one in line["causes"]
    }
    assert explanation["job"]["verdict"]["state"] == job["verdict"]["state"] == state
    assert left == {code for why in reasons for code in why["codes"]} >= codes


def test_a_warning_that_the_catalogue_alone_knows_is_an_error_of_the_job(both):
    shared = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1a000"
    nameless = "Call to ibv_create_qp failed"
    (_, job), (_, explanation) = both(
        warn("n1:7", 0, "init.cc:900", shared) + warn("n1:7", 0, "misc/ibvwrap.cc:190", nameless)
    )
    assert [one["code"] for one in job["findings"]] == ["gpu-shared-by-ranks"], "the other one is open"
    assert {error["codes"][0] for error in job["errors"]} == {"gpu-shared-by-ranks", "memlock-limit"}
    assert explanation["answer"]["cause"] == "gpu-shared-by-ranks"
    assert explanation["machines"][0]["open"][0]["causes"][0]["code"] == "memlock-limit"


def test_a_blocked_job_never_works_because_another_rank_does(both):
    text = HALF + info("n2:8", 1, "Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0")
    (code, _), (explained, explanation) = both(text)
    assert (code, explained, explanation["answer"]["kind"]) == (2, 2, "several")


@pytest.mark.parametrize(("after", "line"), [(1, 1002), (2, 2), (3, 2)])
def test_a_line_behind_what_was_left_out_of_a_log_has_its_number_in_the_whole(after: int, line: int):
    """The second line is the one that proves the path; of the lines up to the gap none is moved."""
    reader = LogReader(HALF.encode(), "text", Gap(after, 1000))
    job = reader(OtherEvidence(proven=frozenset(), cleared=frozenset()))
    assert job is not None and job.legs is not None and job.legs.line == line


def test_versions_that_differ_are_no_cause_of_legs_that_have_another(both):
    """The near miss: where no leg lacks the direct path, they are what the log shows."""
    old = large_job(hosts=2).replace("NCCL version 2.27.5", "NCCL version 2.21.5", 8)
    slow = large_job(hosts=2, staged=("gpu02",)).replace("NCCL version 2.27.5", "NCCL version 2.21.5", 8)

    assert both(slow)[1][1]["answer"]["cause"] is None
    assert both(slow)[1][1]["answer"]["others"][0]["code"] == "peermem-not-loaded"
    assert both(old)[1][1]["answer"]["cause"] == "versions-differ-between-ranks"
