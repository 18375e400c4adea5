"""The answer of `gdr explain` to a log of several hosts: the host, and what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import main
from tests.jobs.large_job import large_job
from tests.jobs.test_nic_lists import TWO, on_few_nics


@pytest.mark.parametrize("hosts", [3, 24])
def test_the_host_of_the_line_that_decides_is_the_one_to_look_at(both, hosts: int):
    """Of a short text all lines are read, of a long one not. The legs are those of each host."""
    _, (code, found) = both(large_job(hosts, staged=("gpu02",)))

    (line,) = found["answer"]["lines"]
    assert (code, found["question"]["machine"]) == (2, "gpu02")
    assert line["text"].startswith("gpu02:")
    legs = {
        one["name"]: fact["value"]
        for one in found["machines"]
        for fact in one["known"]
        if fact["name"] == "NCCL channels"
    }
    assert legs.pop("gpu02") == "0 of 32 network legs access GPU memory directly"
    assert set(legs.values()) == {"32 of 32 network legs access GPU memory directly"}


def test_the_page_has_the_head_of_the_job_and_a_part_for_hosts_that_show_the_same(tmp_path: Path, capsys):
    """Unless all is wanted."""
    path = tmp_path / "job.log"
    path.write_text(large_job(16, staged=("gpu11",)))
    main(["explain", str(path)])
    short = capsys.readouterr().out
    main(["explain", "-v", str(path)])
    long = capsys.readouterr().out

    assert " on gpu01 and 14 more\n" in short
    assert " on gpu11\n" in short
    assert " on gpu16\n" in long
    assert "`gdr nccl LOG` shows the rest" in short and "Misleading lines" not in short
    assert "Misleading lines" in long


def test_ranks_that_are_not_in_the_text_are_no_proof_that_the_path_works(both):
    cut = "".join(large_job().splitlines(keepends=True)[:300])
    _, (code, found) = both(cut)

    assert (code, found["answer"]["kind"]) == (3, "no-problem")
    assert "16 of 128 ranks direct; 112 are not in the log" in found["answer"]["sentence"]
    assert both(large_job(2))[1][1]["answer"]["kind"] == "working"


OLD = (
    "hv-0:41:42 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0 / HCA mlx4_0 {why}\n"
    "hv-1:43:44 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for GPU 0 / HCA mlx4_0 {why}\n"
    "hv-1:43:44 [0] NCCL INFO Ring 00 : 0 -> 1 via NET/IB/0\n"
)
"""Up to 2.3: src/transport/net_ib.cu, ncclIbPtrSupport(); src/transport/net.cu, netRecvSetup()."""


@pytest.mark.parametrize(
    ("why", "first"),
    [
        ("(not supported by GPU)", "gpu-unsupported"),
        ("(no module or not supported by GPU)", "peermem-not-loaded"),
    ],
)
def test_the_first_releases_name_the_nic_and_print_channels_where_they_are_received(both, why, first):
    (code, job), (explained, _) = both(OLD.format(why=why))

    (reason,) = job["why_not_direct"]
    assert (code, explained, reason["ranks"]) == (2, 2, 2)
    assert f"mlx4_0 {why}" in reason["text"]
    assert reason["codes"][0] == first
    legs = [leg for part in job["jobs"] for rank in part["ranks"] for leg in rank["legs"]]
    assert [leg["direction"] for leg in legs] == ["receive"]
    assert [rank["process"] for rank in job["jobs"][0]["ranks"]] == ["hv-1:43", "hv-0:41"]


def test_a_refusal_of_one_nic_of_two_is_no_reason_of_a_channel_that_names_neither(both):
    other = OLD.format(why="(not supported by GPU)").replace("mlx4_0", "mlx4_1")
    (_, job), _ = both(OLD.format(why="(not supported by GPU)") + other)

    assert any("does not show why" in reason["text"] for reason in job["why_not_direct"])


DIAGNOSTICS = Path(__file__).parents[1] / "programs/nccl/diagnostic_logs"


def test_a_setting_that_closes_a_path_is_not_to_be_spread_and_both_commands_say_so(both):
    (_, job), (_, found) = both((DIAGNOSTICS / "environment-differs.log").read_text())

    (step, *_) = found["answer"]["now"]
    for one in job["findings"]:
        assert one["todo"].casefold() in step.casefold()
    assert "unset NCCL_DMABUF_ENABLE on ranks" in step
    proven = {one["code"] for machine in found["machines"] for one in machine["established"]}
    assert proven.isdisjoint(one["code"] for one in found["answer"]["others"])


PASTED = """$ uname -r
6.8.0-90-generic
$ lsmod | grep peermem
nvidia_peermem         16384  0
ib_core               495616  9 rdma_cm,nvidia_peermem,mlx5_ib
$ cat /proc/driver/nvidia/version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025
$ mpirun -x NCCL_DEBUG=INFO ./all_reduce_perf
gpu1:20911:20911 [0] NCCL INFO NCCL version {}+cuda12.4
gpu1:20911:20934 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'
"""


def test_a_driver_that_closes_one_path_is_not_why_the_other_is_closed_too(both):
    """NCCL needs one of two: that dma-buf is closed leaves open why it does not find nvidia-peermem."""
    _, (_, found) = both(PASTED.format("2.21.5"))

    (why,) = found["job"]["why_not_direct"]
    assert why["codes"] == ["nccl-misses-peermem"]
    assert found["answer"]["cause"] == "nccl-misses-peermem"


def test_a_log_from_a_log_store_is_answered_as_the_log_itself(both):
    """The number of the line is that of the export, and what is quoted is the line that was logged."""
    log = large_job(3, staged=("gpu02",))
    rows = (json.dumps({"labels": {"app": "t"}, "line": line, "ts": "1"}) for line in log.splitlines())
    answers = [both(text)[1][1] for text in (log, "\n".join(rows) + "\n")]

    assert answers[0]["answer"] == answers[1]["answer"]
    assert answers[0]["machines"] == answers[1]["machines"]


IBV_DEVICES = """$ ibv_devices
    device                 node GUID
    ------              ----------------
    mlx5_0              a088c20300e31a50
    mlx5_1              a088c20300e31a51
    mlx5_2              a088c20300e31a52
"""


@pytest.mark.parametrize(("setting", "kind"), [(TWO, "several"), ("", "working"), ("mlx5", "working")])
def test_nics_that_a_setting_leaves_out_are_open_where_the_text_lists_them(both, setting: str, kind: str):
    """Without a setting that names some, NCCL left out what it could not use, which is as it should be."""
    _, (_, found) = both(f"{IBV_DEVICES}$ cat job.log\n{on_few_nics(large_job(2), setting)}")

    assert found["answer"]["kind"] == kind
    assert ("and the text lists 1 more: mlx5_2" in found["answer"]["sentence"]) == (kind == "several")


@pytest.mark.parametrize(("setting", "shared"), [(TWO, True), ("", False)])
def test_nics_that_gpus_share_by_a_setting_are_in_the_answer(both, setting: str, shared: bool):
    """The job may have no others: `ibv_devices` tells."""
    answer = both(on_few_nics(large_job(2), setting))[1][1]["answer"]

    assert answer["kind"] == "working"
    assert ("GPUs share 2 NICs" in answer["sentence"]) is shared
    assert any("`ibv_devices` on" in step for step in answer["now"]) is shared


SPARK = """\
#  Rank  0 Group  0 Pid  41233 on spark-a device  0 [000f:01:00] NVIDIA GB10
#  Rank  1 Group  0 Pid  38817 on spark-b device  0 [000f:01:00] NVIDIA GB10
spark-a:41233:41233 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
spark-a:41233:41240 [0] NCCL INFO NET/IB : Using [0]rocep1s0f1:1/RoCE [RO]; OOB enp1s0f1np1:192.168.100.10<0>
spark-a:41233:41240 [0] NCCL INFO Using network IB
spark-a:41233:41240 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'rocep1s0f1'
spark-a:41233:41244 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0
spark-a:41233:41244 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0
"""
BOTH = SPARK.replace(
    "[0]rocep1s0f1:1/RoCE [RO]", "[0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]"
) + SPARK[SPARK.index("spark-a:41233:41244") :].replace("00/0", "01/0").replace("IB/0", "IB/1")


def test_half_of_a_cable_comes_before_the_gpu_that_nobody_can_change(both):
    """As `gdr nccl` says it of the same log."""
    (code, job), (same, found) = both(SPARK)
    assert (code, job["verdict"]["state"]) == (same, "impossible")
    assert found["answer"]["cause"] == "hca-not-selected"
    assert found["answer"]["now"][0].startswith("NCCL_IB_HCA=rocep1s0f1,roceP2p1s0f1 on all nodes")


def test_a_spark_that_uses_the_whole_cable_has_the_gpu_as_its_cause(both):
    _, (_, found) = both(BOTH)
    assert found["answer"]["cause"] == "gpu-integrated"


def test_a_line_that_is_no_failure_does_not_hide_that_the_path_works(both):
    """Alone, or beside what is not direct, the line keeps its own answer."""
    line = "gpu01:1:1 [0] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using internal one\n"
    answer = both(line + large_job(2))[1][1]["answer"]

    assert answer["kind"] == "working" and "directly" in answer["sentence"]
    assert answer["now"][-1].startswith("Line 1 is harmless: NCCL found no network plugin")
    assert both(line + large_job(2, staged=("gpu02",)))[1][1]["answer"]["kind"] != "working"
