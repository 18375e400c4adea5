"""perftest that cannot register GPU memory: the module that a listing shows, and the test to run."""

from __future__ import annotations

import pytest

from gdrkit.explain.explanation import AnswerKind
from gdrkit.explain.lines.transcript import read
from tests.explain.explaining import explained

RUN = """\
{prompt}ib_write_bw -d mlx5_0 -F --use_cuda=0{option} 192.168.111.1
WARNING: BW peak won't be measured in this run.
Perftest doesn't supports CUDA tests with inline messages: inline size set to 0
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 1B:00

Picking device No. 0
[pid = 56, dev = 0] device name = [NVIDIA H100 80GB HBM3]
creating CUDA Ctx
making it the current CUDA Ctx
cuMemAlloc() of a 131072 bytes GPU buffer
allocated GPU buffer address at 00007f6c4ba00000 pointer=0x7f6c4ba00000
Couldn't allocate MR{error}
failed to create mr
Failed to create MR
 Couldn't create IB resources
"""
"""Lines of perftest src/perftest_resources.c and cuda_memory.c, as in linux-rdma/perftest issue 126."""
HOST, POD = "[root@gpu117 ~]# ", "root@rdma-cuda-test-pod-1:~# "
USERS = "nvidia_uvm 4943872 0\nnvidia 56598528 3 {}\n"
WITHOUT, WITH = USERS.format("nvidia_uvm,nvidia_modeset"), USERS.format("nvidia_uvm,nvidia_peermem")


def run(prompt: str = HOST, option: str = "", error: str = " with error=14") -> str:
    return RUN.format(prompt=prompt, option=option, error=error)


@pytest.mark.parametrize(
    "listing",
    [
        f"lsmod | grep -e nvidia -e ib_core\n{WITHOUT}",
        f"lsmod\nModule Size Used by\n{WITHOUT}",
        f"cat /proc/modules | grep nvidia\n{WITHOUT}",
        "cat /proc/modules\nnvidia 14299136 2 nvidia_uvm,nvidia_modeset, Live 0xffffffffc1000000 (POE)\n",
        "lsmod | grep -e peer_mem -e peermem\n[root@gpu117 ~]# \n",
    ],
)
def test_a_listing_without_the_module_decides_with_both_ways_on(listing: str):
    found = explained(f"{run()}{HOST}{listing}").answer

    assert (found.kind, found.cause, found.sureness) == (AnswerKind.CAUSE, "peermem-not-loaded", "certain")
    assert "sudo modprobe nvidia-peermem" in found.now[0] and "--use_cuda_dmabuf" in found.now[0]


def test_a_pod_gets_the_module_from_its_node():
    (step, *_) = explained(f"{run(POD)}{POD}lsmod | grep nvidia\n{WITHOUT}").answer.now
    assert step.startswith("In a pod ") and "driver.rdma.enabled: true" in step


@pytest.mark.parametrize(
    "listing",
    [
        f"lsmod | grep nvidia\n{WITH}",
        "lsmod | grep -e ib_core -e mlx5\nib_core 442368 8 rdma_cm,mlx5_ib\n",
        "lsmod | grep nvidia\nnvidia 56598528 3 nvidia_uvm,nvid...\n",
    ],
)
def test_another_listing_leaves_it_open(listing: str):
    found = explained(f"{run()}{HOST}{listing}")

    assert found.answer.kind is AnswerKind.SEVERAL
    shown = any("nvidia_peermem" in fact.name for fact in found.machines[0].known)
    assert found.question is not None
    assert found.question.command.startswith("nvidia-smi" if shown else "lsmod")


@pytest.mark.parametrize("error", ["", " with error=14"])
def test_without_a_listing_the_question_is_the_module_and_dma_buf_the_test(error: str):
    found = explained(run(error=error))

    assert found.question is not None and found.question.command.startswith("lsmod")
    assert found.answer.kind is AnswerKind.SEVERAL
    assert found.answer.now[0].startswith("Test dma-buf") and "--use_cuda_dmabuf" in found.answer.now[0]


@pytest.mark.parametrize(
    "line",
    [
        "Using DMA-BUF for GPU buffer address at 0x7f1a2a000000 aligned at 0x7f1a2a000000 with size 131072",
        "Conflicting CPU frequency values detected: 1200.000000 != 3600.000000. CPU Frequency is not max.",
        "************************************",
    ],
)
def test_a_line_of_perftest_does_not_end_its_output(line: str):
    text = run(option=" --use_cuda_dmabuf").replace("Couldn't allocate MR", f"{line}\nCouldn't allocate MR")
    assert {one.typed_at for one in read(text) if one.text.strip()} == {1}


def test_a_run_with_dma_buf_is_not_asked_to_use_it():
    assert not explained(run(option=" --use_cuda_dmabuf")).answer.now
