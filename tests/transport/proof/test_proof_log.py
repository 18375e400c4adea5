"""What logs prove about the path of bytes, and what only looks like proof."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.transport.proof.log import LogProof, judge_log

FRAME = "node-a:1:2 [0] NCCL INFO "
AVAILABLE = f"{FRAME}NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'\n" + (
    f"{FRAME}DMA-BUF is available on GPU device 0\n"
)
DIRECT = f"{FRAME}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA\n"
STAGED = f"{FRAME}Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"
PERFTEST = """ib_write_bw -d mlx5_0 {options} node-a
{gpu}
                    RDMA_Write BW Test
 Dual-port       : OFF          Device         : mlx5_0
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             92.50              92.43              0.176301
---------------------------------------------------------------------------------------
"""


def perftest(options, gpu=""):
    return judge_log(PERFTEST.format(options=options, gpu=gpu), "run.txt")


def test_an_available_dmabuf_is_not_a_proof():
    proof = judge_log(AVAILABLE, "job.log")
    assert proof.direct is None and proof.claim.startswith("inconclusive: no NCCL channel line")


def test_tcp_is_not_a_direct_path_whatever_its_channel_line_says():
    """A topology file may allow GPUDirect RDMA for a socket; NCCL then prints /GDRDMA for it."""
    claimed = DIRECT.replace("NET/IB", "NET/Socket")
    proof = judge_log(claimed, "job.log")
    assert proof.direct is False and "staged through host memory" in proof.claim
    assert proof.decided_by == ("0 of 1 channel lines over a network have /GDRDMA, not counting TCP",)
    assert judge_log(DIRECT + claimed, "job.log").direct is False


def test_a_log_without_channel_lines_is_still_recognised_as_nccls():
    communicator = f"{FRAME}comm 0x55aa rank 3 nranks 8 cudaDev 3 busId 5d000 - Init COMPLETE\n"

    assert judge_log(communicator, "job.log").claim.startswith("inconclusive: no NCCL channel line")


@pytest.mark.parametrize(
    "lines, direct", [(DIRECT, True), (STAGED, False), (DIRECT + STAGED, False), (AVAILABLE + STAGED, False)]
)
def test_channel_lines_are_proof(lines, direct):
    proof = judge_log(lines, "job.log")
    assert proof.direct is direct and "channel lines" in proof.decided_by[0]


def test_perftest_on_an_integrated_gpu_proves_nothing():
    proof = perftest("--use_cuda=0 --use_cuda_dmabuf", "CUDA device integrated: 1")
    assert proof.direct is None and "integrated" in proof.claim


def test_perftest_in_host_memory_proves_nothing():
    assert "host memory" in perftest("").claim


def test_perftest_with_gpu_memory_shows_how_it_was_registered():
    gpu = "CUDA device integrated: 0"
    assert "dma-buf" in perftest("--use_cuda=0 --use_cuda_dmabuf", gpu).claim
    assert "nvidia-peermem" in perftest("--use_cuda=0", gpu).claim


def test_perftest_that_could_not_register_moved_nothing():
    text = "ib_write_bw --use_cuda=0\nCouldn't allocate MR with error=14\n"
    assert judge_log(text, "run.txt").claim.startswith("inconclusive: perftest could not register")


@given(st.text(max_size=200) | st.sampled_from([AVAILABLE, DIRECT, PERFTEST]).map(lambda text: text[:-40]))
def test_any_text_is_judged_or_refused(text):
    try:
        assert isinstance(judge_log(text, "x"), LogProof)
    except FormatError as error:
        assert str(error)
