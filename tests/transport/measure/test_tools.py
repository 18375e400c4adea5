"""Other benchmarks: how they are started, how their output is read, and that they are ended."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from gdrkit.cli import bench_tools
from gdrkit.transport.measure import tools
from gdrkit.transport.measure.job import MeasureEnd
from gdrkit.transport.measure.tools import ToolFailed, cuda_flags, perftest, sendrecv
from tests.transport.measure import A_SHELL_FOR_SSH

END = MeasureEnd(None, "mlx5_0")
HELP = "      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing\n"
DMABUF = "      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing\n"
TABLE = """
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 {size}       256            11000.00           10500.00             0.010500
---------------------------------------------------------------------------------------
"""
PROGRAM = """#!{python}
import os, socket, sys
words = sys.argv[1:]
with open({log!r}, "a") as log: log.write(" ".join(words) + "\\n")
if "--help" in words: print({help!r}); sys.exit(1)
port, size = int(words[words.index("-p") + 1]), words[words.index("-s") + 1]
if {refuses!r} and {refuses!r} in words: print("Couldn't allocate MR"); sys.exit(1)
if words[-1].startswith("1"):
    socket.create_connection((words[-1], port)).close()
    print({table!r}.replace("{{size}}", size))
else:
    with socket.create_server(("127.0.0.1", port)) as server:
        server.accept()
        {server}
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a program on PATH that imitates perftest; returns the log of its arguments."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    log = tmp_path / "log"

    def put(name: str, options: str = "", refuses: str = "", server: str = "pass") -> Path:
        file = tmp_path / name
        text = PROGRAM.format(
            python=sys.executable, log=str(log), help=options, table=TABLE, refuses=refuses, server=server
        )
        file.write_text(text)
        file.chmod(0o755)
        return log

    return put


def alive(marker: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and entry.name != str(os.getpid()):
            return True
    return False


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("  -d, --ib-dev=<dev>\n", ()),
        (HELP, (("--use_cuda={}",),)),
        (HELP + DMABUF, (("--use_cuda={}", "--use_cuda_dmabuf"), ("--use_cuda={}",))),
    ],
)
def test_the_options_for_gpu_memory_are_read_from_its_help(install, text, flags):
    install("ib_write_bw", text)
    assert cuda_flags("ib_write_bw") == flags


def test_server_and_client_use_the_same_port_and_their_own_device(install):
    log = install("ib_write_bw")
    text = perftest(
        "ib_write_bw", MeasureEnd(0, "mlx5_0:2"), MeasureEnd(3, "mlx5_1"), 1 << 20, flags=("--use_cuda={}",)
    )
    assert "10500.00" in text
    server, client = (shlex.split(line) for line in log.read_text().splitlines())
    assert server[:5] == ["-d", "mlx5_0", "-i", "2", "--use_cuda=0"]
    assert client[:3] == ["-d", "mlx5_1", "--use_cuda=3"]
    assert client[-1] == "127.0.0.1"
    assert server[server.index("-p") + 1] == client[client.index("-p") + 1]


def test_a_server_that_does_not_exit_is_killed(install, tmp_path):
    install("ib_write_bw", server="import time; time.sleep(600)")
    perftest("ib_write_bw", END, END, 4096)
    assert not alive(f"{tmp_path}/ib_write_bw")


def test_a_client_that_hangs_is_a_failure_and_leaves_no_process(install, tmp_path, monkeypatch):
    install("ib_write_bw", server="import time; time.sleep(600)")
    shell = tmp_path / "ssh"
    shell.write_text("#!/bin/sh\nsleep 600\n")
    shell.chmod(0o755)
    with pytest.raises(ToolFailed, match=r"ssh: not done after 0\.5 s"):
        perftest("ib_write_bw", END, END, 4096, host="node-b", seconds=0.5)
    assert not alive(f"{tmp_path}/ib_write_bw") and not alive(f"{tmp_path}/ssh")


def test_a_client_on_another_node_has_its_own_time_limit(install, tmp_path):
    """The command line for ssh, with a shell instead of ssh."""
    log = install("ib_write_bw")
    shell = tmp_path / "ssh"
    shell.write_text(A_SHELL_FOR_SSH)
    shell.chmod(0o755)
    assert "RDMA_Write" in perftest("ib_write_bw", END, END, 4096, host="node-b")
    assert log.read_text().splitlines()[-1].endswith(" 127.0.0.1")


def test_a_program_that_is_not_installed_is_an_error():
    with pytest.raises(ToolFailed, match="ib_nothing_bw is not installed"):
        perftest("ib_nothing_bw", END, END, 4096)
    with pytest.raises(ToolFailed, match="not installed"):
        sendrecv((0, 1), 1024, 4096)


def test_the_error_of_a_failed_server_is_its_last_line(install):
    install("ib_write_bw", refuses="mlx5_9")
    absent = MeasureEnd(None, "mlx5_9")
    with pytest.raises(ToolFailed, match="Couldn't allocate MR"):
        perftest("ib_write_bw", absent, absent, 4096)


def test_each_size_is_a_row_with_only_the_measured_values(install):
    install("ib_write_bw")
    install("ib_read_lat")
    bandwidth, *_ = bench_tools.tool_runs(END, END, (4096, 65536), None, None, lambda text: None)
    assert (bandwidth.path, bandwidth.tool) == ("verbs", "ib_write_bw")
    assert [point.size_bytes for point in bandwidth.points] == [4096, 65536]
    point = bandwidth.points[0]
    assert point.streaming_gb_per_s == pytest.approx(10500 * 2**20 / 1e9)
    assert point.median_us is point.gb_per_s is point.checked is None


def test_if_dmabuf_fails_peermem_is_tried_and_the_row_shows_which_was_used(install):
    install("ib_write_bw", HELP + DMABUF, refuses="--use_cuda_dmabuf")
    install("ib_read_lat", "")
    runs = bench_tools.tool_runs(
        MeasureEnd(0, "mlx5_0"), MeasureEnd(0, "mlx5_0"), (4096,), None, None, lambda text: None
    )
    assert [run.tool for run in runs] == ["ib_write_bw --use_cuda", "ib_read_lat"]
    assert runs[1].unavailable == "built without CUDA"


def test_without_a_device_perftest_does_not_run():
    (run,) = bench_tools.tool_runs(MeasureEnd(), MeasureEnd(), (4096,), None, None, lambda text: None)
    assert run.unavailable == "no RDMA device given"


def test_gpus_are_named_by_their_entries_in_cuda_visible_devices(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,7")
    assert tools._visible((0, 2)) == "3,7"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert tools._visible((0, 2)) == "0,2"
