"""`gdr nccl`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import jsonschema
import pytest

from gdrkit.agent.streams import SafeStream
from gdrkit.cli import main
from gdrkit.cli.schema import schema_of
from gdrkit.jobs.document import NcclDocument
from tests.cli.test_pasted_halves import nccl_tests
from tests.evidence_nodes import build
from tests.jobs.samples import SAMPLES, info, warn
from tests.programs.nccl.diagnostic_reports import LOGS

DIRECT = info(
    "n1:7", 0,
    "NCCL version 2.27.5+cuda12.9",
    "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'",
    "Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA",
    "Channel 01/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
)  # fmt: skip
OTHER_END = info("n2:8", 0, "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0/GDRDMA")
BOUNCED = info("n2:8", 0, "Channel 00/0 : 0[0] -> 1[0] [receive] via NET/IB/0")
START = info("n1:7", 0, "comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1b000 - Init COMPLETE")
CODES = {"active": (0, 1), "blocked": (2,), "unknown": (3,)}


@pytest.fixture
def log(tmp_path: Path):
    def write(text: str) -> str:
        (tmp_path / "job.log").write_text(text)
        return str(tmp_path / "job.log")

    return write


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (DIRECT + OTHER_END, 0),
        (DIRECT, 3),
        (DIRECT + BOUNCED, 2),
        ("hello\n", 3),
        (DIRECT + OTHER_END + "NCCL version 2.20.5+cuda12.4\n", 1),
    ],
)
def test_exit_codes(log, capsys, text: str, code: int):
    assert main(["nccl", "-q", log(text)]) == code
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("lines", "code", "words"),
    [(("NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",), 2,
      "neither nvidia-peermem nor dma-buf for mlx5_0"),
     (("NCCL version 2.18.5+cuda12.2", "GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)"), 3,
      "GPU ca000 and HCA 0: distance 7 exceeds level 4: SYS, but PXB is the farthest allowed"),
     (("GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)",), 3,
      "if the level is NCCL's default")],
)  # fmt: skip
def test_an_excerpt_without_channels_shows_what_was_refused(log, capsys, lines, code, words):
    path = log(info("n1:7", 0, *lines))
    assert main(["nccl", path]) == code
    shown = " ".join(capsys.readouterr().out.split())
    assert ("Refused (no channel line shows the result)" in shown) == (code == 3)
    assert words in shown


def test_a_refusal_is_not_repeated_if_channels_show_it(log, capsys):
    refusal = info("n2:8", 0, "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'")
    main(["nccl", log(refusal + BOUNCED)])
    shown = capsys.readouterr().out
    assert "Why not direct" in shown
    assert "Refused (" not in shown


def test_a_log_of_two_hosts_that_ends_early_is_not_asked_for_two_hosts(log, capsys):
    words = "ncclCommInitRankConfig comm 0x1 rank {0} nranks 2 cudaDev 0 nvmlDev 0 busId 19000 commId 0x2"
    begun = [info(f"n{rank}:7", 0, f"{words.format(rank)} - Init START") for rank in (0, 1)]
    main(["nccl", log("".join(begun))])
    assert "the log ends, or is cut, before NCCL connects its ranks" in capsys.readouterr().out

    main(["nccl", log(begun[0])])
    assert "run with NCCL_DEBUG=INFO, on two nodes or more" in capsys.readouterr().out


def test_each_error_names_its_next_step_once(log, capsys):
    pinned = warn(
        "n1:7", 0, "misc/ibvwrap.cc:1", "Call to ibv_reg_mr failed with error Cannot allocate memory"
    )
    main(["nccl", log(DIRECT + pinned)])
    out = capsys.readouterr().out
    assert out.count("next: `gdr codes memlock-limit`") == 1

    lost = warn("n1:7", 0, "transport/net_ib.cc:1", "NET/IB: Got completion from peer 10.0.0.1<45678> with"
                " status=12 opcode=0 len=0 vendor err 129 (Recv)")  # fmt: skip
    main(["nccl", log(DIRECT + lost)])
    assert capsys.readouterr().out.count("next: `gdr codes retry-exceeded`") == 1


def test_wrong_usage_and_missing_files(capsys):
    assert main(["nccl", "/nowhere/job.log"]) == 66
    assert main(["nccl", "--rank", "x"]) == 64
    assert "no such file" in capsys.readouterr().err


def test_the_summary_comes_first_then_findings_then_ranks(log, capsys):
    main(["nccl", log(DIRECT + BOUNCED)])
    out = capsys.readouterr().out

    assert out.startswith(
        "blocked  1 of 2 hosts goes through host memory: n2 (receiving, 1 NIC, 1 rank)\n"
        "  2 ranks x 2 channels: 2 direct, 1 through host memory"
    )
    assert out.index("Why not direct") < out.index("\nRanks\n")
    assert "rank 0  n1:7 GPU 0  send GDRDMA mlx5_0; receive GDRDMA mlx5_0" in out
    assert "rank 1  n2:8 GPU 0  receive through host memory IB/0" in out
    assert "job.log:5" in out


def test_a_single_rank_is_named_in_the_singular(log, capsys):
    main(["nccl", log(BOUNCED)])

    out = capsys.readouterr().out
    assert out.startswith(
        "blocked  1 of at least 2 ranks in the log, 1 leg: 0 direct, 1 through host memory\n"
    )
    assert "1 of at least 2 ranks on 1 host" in out


def test_a_text_without_a_line_of_nccl_is_told_from_a_log_without_channels(log, capsys):
    main(["nccl", log("#!/bin/sh\nexport NCCL_DEBUG=INFO\nsrun train.py\n")])
    assert capsys.readouterr().out == (
        "unknown  no line of NCCL: give the output of a job that ran with NCCL_DEBUG=INFO\n\n"
    )
    main(["nccl", log("NCCL version 2.27.5+cuda12.9\n")])
    assert capsys.readouterr().out.startswith("unknown  no channel line: ")


@pytest.mark.parametrize(
    ("lines", "named"), [(DIRECT + OTHER_END, False), (DIRECT, False), (BOUNCED, True), (START, True)]
)
def test_lines_that_are_missing_are_named_where_they_would_say_more(log, capsys, lines: str, named: bool):
    main(["nccl", log(lines.replace("NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "a"))])

    assert ("This log has no line about which GPU" in capsys.readouterr().out) is named


def test_two_hosts_with_lines_of_a_plugin_are_two_hosts(log, capsys):
    """NVIDIA/nccl issue 1597: on EFA, NICs are listed before the network is named."""
    nic = "NET/OFI NIC group 0 device #0 0000:a3:00.0"
    main(["nccl", log(info("n1:7", 0, nic, "Using network Libfabric") + info("n2:7", 0, nic))])

    out = capsys.readouterr().out
    assert "2 ranks on 2 hosts" in out and "on two nodes or more" not in out
    assert "expected: IB, or the plugin that these NICs need, as EFA and Slingshot do" in out


def test_one_rank_in_detail(log, capsys):
    main(["nccl", "--rank", "1", log(DIRECT + BOUNCED)])
    out = capsys.readouterr().out

    assert "receive through host memory IB/0, channels 0\n" in out
    assert "n1:7" not in out
    main(["nccl", "--rank", "9", log(DIRECT)])
    assert "no lines of rank 9" in capsys.readouterr().out


def test_equal_ranks_share_a_row(log, capsys):
    lines = (
        info(f"n{rank // 8}:{50 + rank}", rank % 8,
             f"Channel 00/0 : {rank}[0] -> {(rank + 8) % 64}[0] [send] via NET/IB/{rank % 8}/GDRDMA")
        for rank in range(64)
    )  # fmt: skip
    main(["nccl", log("".join(lines))])

    assert "64 ranks (0-63): send GDRDMA IB" in capsys.readouterr().out


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_json_fits_its_schema_and_agrees_with_the_text(log, capsys, sample):
    path = log(sample.text)
    code = main(["nccl", "--json", path])
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, json.loads(schema_of(NcclDocument, "gdrkit.nccl/1")))
    main(["nccl", path])
    text = " ".join(capsys.readouterr().out.split())

    assert code in CODES[sample.state]
    assert document["verdict"]["state"] == sample.state
    assert " ".join(document["verdict"]["summary"].split(":")[0].split()) in text
    assert all(finding["code"] in text for finding in document["findings"])


def test_progress_of_large_logs_is_shown_once_per_percent(monkeypatch):
    from gdrkit.cli.nccl import WORTH_A_BAR_BYTES, _Progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", SafeStream(terminal))
    bar, size = _Progress(), 4 * WORTH_A_BAR_BYTES
    for done in range(0, size, size // 1000):
        bar(done, size)
    _Progress()(1000, 1000)
    shown = terminal.getvalue()

    assert shown.count("\r") == 100, "0 to 99; the last step is not reached"
    assert f"[{'#' * 15}{' ' * 15}]  50 % of 67 MB" in shown


def test_rates_of_diagnostics_are_compared_with_a_given_node(tmp_path, capsys):
    node = str(build("ubuntu-6.8-h100", tmp_path))
    assert main(["nccl", str(LOGS / "healthy.log"), "--node", node]) == 3
    shown = " ".join(capsys.readouterr().out.split())

    assert "You are at 99 % of what the port of mlx5_0 can do" in shown


def test_a_log_without_rates_says_so_beside_a_node(tmp_path, capsys):
    assert main(["nccl", str(LOGS / "iommu-on-groups-differ.log"), "--node", str(tmp_path)]) == 3
    captured = capsys.readouterr()

    assert "no rate of NCCL's diagnostics" in captured.err
    assert "measured:" not in captured.out


REPORTS = Path(__file__).parents[1] / "programs/nccl/diagnostic_logs"


def test_reports_of_several_jobs_are_not_judged_as_one(tmp_path, capsys):
    """Two files of one job have a communicator in common."""
    report = (REPORTS / "environment-differs.log").read_text()
    for name, text in (("a", report), ("b", report.replace("0x7", "0x8").replace("pool-x-1:", "pool-y-1:"))):
        (tmp_path / name).write_text(text)
    (tmp_path / "c").write_text(report.replace("pool-x-1:", "pool-x-2:"))

    assert main(["nccl", str(tmp_path / "a"), str(tmp_path / "b")]) >= 64
    assert "diagnostics of 2 jobs" in capsys.readouterr().err
    assert main(["nccl", str(tmp_path / "a"), str(tmp_path / "c")]) == 2


def test_a_file_is_named_once_above_the_lines_of_a_report(tmp_path, capsys):
    path = tmp_path / "report.log"
    path.write_text((REPORTS / "environment-differs.log").read_text())
    main(["nccl", str(path)])
    report = capsys.readouterr().out.partition("NCCL's diagnostics")[2]

    assert report.count("report.log") == 1
    assert "      line 12\n" in report


@pytest.mark.parametrize(("host", "named"), [("n1", True), ("n2", False)])
def test_ranks_of_one_host_that_talk_through_nics_are_named(log, capsys, host: str, named: bool):
    """sgl-project/sglang issue 4289; the near miss are ranks of two hosts."""
    sends = info("n1:3", 3, "Channel 00/0 : 3[3] -> 4[4] [send] via NET/IB/0/GDRDMA")
    receives = info(f"{host}:4", 4, "Channel 00/0 : 3[3] -> 4[4] [receive] via NET/IB/2/GDRDMA")
    main(["nccl", log(sends + receives)])

    out = capsys.readouterr().out
    assert "cross rails" in out and ("both ranks are on one host" in out) is named


def test_a_rate_that_half_of_a_cable_carries_names_both_devices(log, capsys):
    """nccl-tests without NCCL_DEBUG, on two DGX Sparks: dgx-spark-playbooks, issue 102."""
    assert main(["nccl", log(nccl_tests("11.96"))]) == 3
    shown = " ".join(capsys.readouterr().out.split())
    assert "NCCL_IB_HCA=rocep1s0f0,roceP2p1s0f0" in shown and "half of a cable" in shown
    assert main(["nccl", log(nccl_tests("11.96", "NVIDIA H100 80GB HBM3"))]) == 3
    assert "half of a cable" not in capsys.readouterr().out


REFUSED = (
    "[E1125 21:41:03.701912248 socket.cpp:1023] [c10d] The client socket has timed out after 60000ms while "
    "trying to connect to (gpu-a01, 29500).\n"
)


def test_a_log_that_ends_before_nccl_starts_has_the_answer_of_explain(log, capsys):
    """pytorch/pytorch issue 105782: torchrun does not reach its store."""
    assert main(["nccl", log(REFUSED)]) == 3
    shown = capsys.readouterr().out
    assert shown.startswith("unknown  no line of NCCL")
    assert "does not reach the store of rank 0" in " ".join(shown.split())

    assert main(["nccl", log("epoch 1: loss 2.31\n")]) == 3
    assert len(capsys.readouterr().out.strip().splitlines()) == 1
