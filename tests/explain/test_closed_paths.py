"""Both direct paths closed where nothing failed, and contents that contradict each other."""

from __future__ import annotations

import pytest

from gdrkit.explain.text import text as as_text
from tests.explain.explaining import explained

PROPRIETARY = (
    "$ cat /proc/driver/nvidia/version\n"
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.158.01  Thu May 22 22:46:41 UTC 2025\n"
)
OPEN = (
    "$ cat /proc/driver/nvidia/version\n"
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.158.01  Release Build  (dvs-builder@U16)\n"
)
NOT_LOADED, DATE = "$ lsmod | grep -c peermem\n0\n", "$ date\n"


def test_two_notes_that_close_both_paths_together_are_said_together():
    answer = explained(PROPRIETARY + NOT_LOADED + DATE).answer
    assert answer.sentence.startswith("Both direct paths are closed: ")
    assert [line.line for line in answer.lines] == [2, 3]
    assert "modprobe nvidia-peermem" in answer.now[-1]


def test_one_closed_path_leaves_the_other():
    for text in (PROPRIETARY, NOT_LOADED + DATE, OPEN + NOT_LOADED + DATE):
        assert "Both" not in explained(text).answer.sentence


def test_contents_that_contradict_each_other_are_no_sign_of_health():
    answer = explained(OPEN + "and the other one\n" + PROPRIETARY).answer
    assert (answer.kind, "different contents" in answer.sentence) == ("several", True)
    assert [line.line for line in answer.lines] == [2, 5]


def test_the_same_content_twice_is_none_of_them():
    assert explained(OPEN + "and the other one\n" + OPEN).answer.kind == "no-problem"


EFA = "$ fi_info -p efa -t FI_EP_RDM\nprovider: efa\n    fabric: efa\n    domain: rdmap79s0-rdm\n"


def test_nvidia_peermem_that_is_not_loaded_is_no_matter_of_an_efa():
    answer = explained(EFA + OPEN + NOT_LOADED + DATE).answer
    assert "nvidia-peermem" not in answer.sentence and not any("Spark" in step for step in answer.now)


def test_a_driver_for_x86_is_of_no_spark():
    answer = explained(OPEN + NOT_LOADED + DATE).answer
    assert "nvidia-peermem is not loaded" in answer.sentence
    assert "dma-buf" in answer.now[0] and "Spark" not in answer.now[0]
    assert "Spark" in explained(OPEN.replace("x86_64", "aarch64") + NOT_LOADED + DATE).answer.now[0]


def test_an_efa_leaves_both_closed_paths_open_to_question():
    assert explained(EFA + PROPRIETARY + NOT_LOADED + DATE).answer.kind == "several"


GPUS = {
    "gpu-integrated": "$ nvidia-smi -L\nGPU 0: NVIDIA GB10 (UUID: GPU-9c0e1d2f-1111)\n",
    "gpu-consumer": "$ nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-9c0e1d2f-1111)\n",
}
STUB = "$ modprobe nvidia-peermem\nmodprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"
CHANGEABLE = {
    "ib-disabled-by-env": "$ env | grep NCCL\nNCCL_IB_DISABLE=1\n",
    "port-down": "$ ibstat mlx5_0\nCA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n",
}


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("code", CHANGEABLE)
def test_what_can_be_changed_comes_before_a_gpu_that_cannot(gpu: str, code: str):
    """Where it matters through host memory as well; the GPU comes after it, as what it is."""
    found = explained(GPUS[gpu] + STUB + CHANGEABLE[code])
    assert found.answer.cause == code
    assert "Every such GPU is like that" in as_text(found).partition("Also proven")[2]


@pytest.mark.parametrize("gpu", GPUS)
def test_what_matters_for_the_direct_path_alone_does_not(gpu: str):
    for beside in ("", "$ env | grep NCCL\nNCCL_NET_GDR_LEVEL=LOC\n", "$ lsmod | grep -c peermem\n0\n"):
        found = explained(GPUS[gpu] + STUB + beside)
        assert found.answer.cause == gpu and "Every such GPU" not in as_text(found)


NOT_FOUND = "modprobe: FATAL: Module {} not found in directory /lib/modules/6.8.0-58-generic\n"
VERSION = (
    "$ cat /proc/driver/nvidia/version\nNVRM version: NVIDIA UNIX {}x86_64{}  570.133.20  Release Build"
    "  (dvs-builder@U22-I3-AF03-05-1)  Sun Mar 30 21:27:03 UTC 2025\n"
)
OPEN, CLOSED = VERSION.format("Open Kernel Module for ", ""), VERSION.format("", " Kernel Module")


def test_a_module_that_is_missing_may_not_be_needed_beside_the_open_driver():
    """NVIDIA's GPU Operator documentation, GPUDirect RDMA: dma-buf is what it recommends there."""
    missing = NOT_FOUND.format("nvidia_peermem")

    assert explained(OPEN + missing).answer.now[0].startswith("Often nothing")
    assert explained(CLOSED + missing).answer.now[0].startswith("Install the driver's modules")


def test_the_old_name_of_nvidia_peermem_is_told_from_a_module_that_lacks_a_build():
    """Mellanox/nv_peer_memory, README: tutorials from before driver 470 load it."""
    (step,) = explained(OPEN + NOT_FOUND.format("nv_peer_mem")).answer.now
    assert "run `sudo modprobe nvidia-peermem`" in step

    (step, *_) = explained(OPEN + NOT_FOUND.format("mlx5_ib")).answer.now
    assert "nv_peer_mem" not in step
