"""Outputs of perftest."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from gdrkit.programs.verbs.perftest_log import FOLDER, parse, runs
from tests.memory_host import MemoryHost

GPU_RUN = """\
$ ib_write_bw -d mlx5_0 --use_cuda=0 --use_cuda_dmabuf --report_gbits
initializing CUDA
CUDA device integrated: 0
using DMA-BUF for GPU buffer address at 0x7f aligned at 0x7f with aligned size 131072
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             391.10             390.92             0.745621
"""


def test_a_run_with_dmabuf():
    run = parse(GPU_RUN)

    assert run.command.startswith("ib_write_bw -d mlx5_0")
    assert (run.uses_gpu, run.uses_dmabuf, run.bandwidth_shown, run.integrated_gpu) == (
        True,
        True,
        True,
        False,
    )


def test_without_the_command_the_output_decides():
    without = parse(GPU_RUN.partition("\n")[2])

    assert (without.command, without.uses_dmabuf) == ("", True)


def test_a_failure_keeps_its_number():
    run = parse("ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\nfailed to create mr\n")

    assert (run.registration_errno, run.uses_dmabuf, run.bandwidth_shown) == (14, False, False)
    assert parse("Couldn't allocate MR\n").registration_errno is None


def test_a_run_in_host_memory():
    run = parse("ib_send_lat -d mlx5_0 10.0.0.2\n")

    assert (run.uses_gpu, run.uses_dmabuf) == (False, False)


def test_other_text_is_refused():
    with pytest.raises(FormatError):
        parse("Segmentation fault\n")


@given(st.text())
def test_any_text_is_a_run_or_refused(text: str):
    with contextlib.suppress(FormatError):
        parse(text)


def test_runs_are_those_that_were_supplied():
    assert runs(Node(MemoryHost({f"{FOLDER}/a": GPU_RUN}))) == (f"{FOLDER}/a",)
    assert runs(Node(MemoryHost())) == ()
