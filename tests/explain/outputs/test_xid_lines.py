"""What the kernel log says of GPUs and NICs that stopped working is judged as doctor judges it."""

import pytest

from tests.explain.explaining import explained

SLOT = "NVRM: Xid (PCI:0000:c3:00)"


@pytest.mark.parametrize(
    "before", ["", "kernel: ", "[ 88.125] ", "Nov 20 17:55:01 gpu-7 kernel: ", "ERROR: nhc: "]
)
@pytest.mark.parametrize("number", [48, 79, 95, 119, 136, 143])
def test_an_xid_that_needs_a_reset_is_named_and_not_certain(number: int, before: str):
    answer = explained(f"{before}{SLOT}: {number}, pid=4711, name=train, something\n").answer
    assert (answer.cause, answer.sureness) == (
        "gpu-needs-reset",
        "likely" if not before.startswith("E") else answer.sureness,
    )


@pytest.mark.parametrize("number", [8, 13, 31, 43, 45, 63, 74, 92, 94, 121, 149])
def test_an_xid_that_ends_a_process_at_most_needs_no_reset(number: int):
    assert explained(f"[ 88.125] {SLOT}: {number}, pid=4711, name=train, something\n").answer.cause is None


REMAP = f"[ 89.5] {SLOT}: 63, pid=1896, Row Remapper: New row marked for remapping, reset gpu to activate.\n"
CONTAINED = f"[ 89.1] {SLOT}: 94, pid=4188, name=train, Contained: SM (0x1). RST: No, D-RST: No\n"


@pytest.mark.parametrize("before", ["", CONTAINED])
def test_a_row_to_be_replaced_takes_effect_with_a_reset_and_leaves_the_gpu_usable(before: str):
    """NVIDIA, GPU Memory Error Management: the flag of a pending row-remapping."""
    answer = explained(before + REMAP).answer

    assert answer.cause is None
    assert (
        "takes effect when the GPU is reset" in answer.sentence
        and "until then the GPU works" in answer.sentence
    )
    assert any("nvidia-smi --gpu-reset" in step for step in answer.now)


def test_a_contained_error_alone_shows_no_row_to_be_replaced():
    assert "takes effect when the GPU is reset" not in explained(CONTAINED).answer.sentence


@pytest.mark.parametrize(
    "after",
    [
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build",
        "pci 0000:c3:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint",
        f"{SLOT}: 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
    ],
)
def test_an_xid_before_the_gpu_started_anew_counts_no_longer(after: str):
    lost = f"[ 88.125] {SLOT}: 95, pid=4711, name=train, Uncontained: LTC TAG\n"
    assert explained(lost).answer.cause == "gpu-needs-reset"
    assert explained(f"{lost}[ 99.5] {after}\n").answer.cause is None


def test_a_double_bit_error_that_was_contained_needs_no_reset():
    double = f"[ 88.1] {SLOT}: 48, pid=4711, name=train, DBE at 0x1\n"
    contained = f"[ 88.2] {SLOT}: 94, pid=4711, name=train, Contained: SM\n"
    other = contained.replace("c3", "d4")
    assert explained(double + contained).answer.cause is None
    assert explained(double + other).answer.cause == "gpu-needs-reset"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[ 9.5] NVRM: GPU 0000:c3:00.0: RmInitAdapter failed! (0x62:0xffff:2477)", "gpu-refused-by-driver"),
        ("[ 9.5] NVRM: fallen off the bus and is not responding to commands.", "device-not-answering"),
        (
            "[ 9.5] mlx5_core 0000:4b:00.0: poll_health:840:(pid 0): device's health compromised",
            "nic-failed",
        ),
        ("RuntimeError: CUDA error: system not yet initialized", "nvswitch-fabric-down"),
        ("p2p.cu:31 code=802(cudaErrorSystemNotReady) cudaMalloc(&p, n)", "nvswitch-fabric-down"),
    ],
)
def test_a_line_of_something_that_stopped_working_has_its_code(text: str, code: str):
    answer = explained(f"{text}\n{text}\n").answer
    assert answer.cause == code
    assert answer.sureness != "certain"


@pytest.mark.parametrize("gpu", ["GPU 0000:c3:00.0: ", "GPU at 0000:c3:00.0: ", ""])
def test_a_page_that_names_a_message_of_the_driver_prints_none(gpu: str):
    row = "| RmInitAdapter failed | 0x22:0x56 | the firmware did not load |\n"
    assert explained(f"```\n{row}```\nThe log has `RmInitAdapter failed`.\n").answer.cause is None
    assert explained(f"NVRM: {gpu}RmInitAdapter failed! (0x22:0x56:742)\n").answer.cause is not None


def test_a_gpu_that_nvidia_smi_reads_was_started_since():
    failed = "[ 9.5] NVRM: GPU 0000:c3:00.0: RmInitAdapter failed! (0x62:0xffff:2477)\n"
    shown = "GPU 00000000:C3:00.0\n    Product Name : NVIDIA H100 80GB HBM3\n"
    memory = "    FB Memory Usage\n        Total : 81559 MiB\n        Used : 4 MiB\n"
    assert explained(f"{shown}{failed}").answer.cause == "gpu-refused-by-driver"
    assert explained(f"$ nvidia-smi -q\n{shown}{memory}$ dmesg\n{failed}").answer.cause is None
