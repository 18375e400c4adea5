"""The output of nvidia-smi. The sample is an excerpt from a virtual machine with two H200s."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.facts import nvidia_smi
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node
from tests.memory_host import MemoryHost

HEAD = """
==============NVSMI LOG==============

Timestamp                                              : Fri Nov 20 16:02:10 2026
Driver Version                                         : 580.159.04
CUDA Version                                           : 13.0

Attached GPUs                                          : {count}
"""
GPU = """\
GPU 00000000:00:0{slot}.0
    Product Name                                       : NVIDIA H200
    Product Brand                                      : NVIDIA
    Product Architecture                               : Hopper
    Addressing Mode                                    : None
    MIG Mode
        Current                                        : Disabled
        Pending                                        : Disabled
    Driver Model
        Current                                        : N/A
    GPU C2C Mode                                       : Disabled
    GPU Virtualization Mode
        Virtualization Mode                            : Pass-Through
        Host VGPU Mode                                 : N/A
    PCI
        Bus                                            : 0x00
        Device Id                                      : 0x233510DE
        Bus Id                                         : 00000000:00:0{slot}.0
        Sub System Id                                  : 0x18BF10DE
        GPU Link Info
            PCIe Generation
                Max                                    : 5
                Current                                : 4
                Host Max                               : N/A
            Link Width
                Max                                    : 16x
                Current                                : 8x
        Bridge Chip
            Type                                       : N/A
    FB Memory Usage
        Total                                          : 143771 MiB
        Used                                           : 0 MiB
    BAR1 Memory Usage
        Total                                          : 262144 MiB
        Used                                           : 1 MiB
        Free                                           : 262143 MiB
    Conf Compute Protected Memory Usage
        Total                                          : 0 MiB
    Processes                                          : None

"""
TWO = HEAD.format(count=2) + GPU.format(slot=6) + GPU.format(slot=7)

SPARK = HEAD.format(count=1) + (
    "GPU 0000000F:01:00.0\n"
    "    Product Name                                       : NVIDIA GB10\n"
    "    Addressing Mode                                    : ATS\n"
    "    FB Memory Usage\n"
    "        Total                                          : N/A\n"
)


def test_each_gpu_is_read_with_its_sections():
    first, second = nvidia_smi.parse(TWO)

    assert (first.address, second.address) == ("0000:00:06.0", "0000:00:07.0")
    assert (first.device_id, first.subsystem, first.product_name) == ("2335", "10de:18bf", "NVIDIA H200")
    assert (first.generation_current, first.generation_max) == (4, 5)
    assert (first.width_current, first.width_max) == (8, 16)
    assert (first.mig_mode, first.virtualization_mode, first.addressing_mode) == (
        "Disabled",
        "Pass-Through",
        "None",
    )
    assert (first.framebuffer_mib, first.bar1_total_mib, first.bar1_free_mib) == (143771, 262144, 262143)
    assert first.protected_mib == 0


def test_not_available_differs_from_not_printed():
    (gpu,) = nvidia_smi.parse(SPARK)
    node = Node(MemoryHost())

    assert gpu.address == "000f:01:00.0"
    assert nvidia_smi.printed_field(node, gpu, "addressing_mode") == "ATS"
    with pytest.raises(EvidenceAbsent):
        nvidia_smi.printed_field(node, gpu, "framebuffer_mib")
    with pytest.raises(EvidenceMissing) as caught:
        nvidia_smi.printed_field(node, gpu, "bar1_total_mib")
    assert not isinstance(caught.value, EvidenceAbsent)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        "latest NVIDIA driver is installed and running.",
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
        HEAD.format(count=0),
        TWO[: TWO.index("GPU 00000000:00:07.0")],
    ],
    ids=["empty", "no driver", "mismatch", "no devices", "zero", "cut before the second GPU"],
)
def test_an_error_message_or_a_cut_output_is_garbled(text):
    with pytest.raises(FormatError):
        nvidia_smi.parse(text)


def test_a_gpu_that_is_not_printed_is_not_known():
    node = Node(MemoryHost(commands={("nvidia-smi", "-q"): TWO}))

    assert nvidia_smi.smi_gpu(node, "0000:00:07.0").device_id == "2335"
    with pytest.raises(EvidenceMissing):
        nvidia_smi.smi_gpu(node, "0000:00:08.0")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
        ("10000:E1:00.0", "10000:e1:00.0"),
        ("1b:00.0", "0000:1b:00.0"),
    ],
)
def test_addresses_have_one_form(text, address):
    assert nvidia_smi.pci_address(text) == address


MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPXB\t32-63\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t\n"
    "\n"
    "Legend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n"
)


def test_the_matrix_has_device_names_for_nics():
    topology = nvidia_smi.parse_topology(MATRIX)

    assert topology.names == ("GPU0", "GPU1", "mlx5_0", "mlx5_1")
    assert topology.cells["GPU0", "mlx5_0"] == "PIX"
    assert topology.cells["GPU1", "mlx5_1"] == "PXB"
    assert topology.cells["mlx5_0", "GPU1"] == "SYS"


def test_an_old_matrix_has_the_device_names_in_its_header():
    topology = nvidia_smi.parse_topology(
        "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tNODE\t0-31\nmlx5_0\tNODE\t X \t\n"
    )

    assert topology.cells["GPU0", "mlx5_0"] == "NODE"


@pytest.mark.parametrize(
    "text", ["", "Failed to initialize NVML", MATRIX[:80], MATRIX[: MATRIX.index("NIC1\tSYS")]]
)
def test_an_incomplete_matrix_is_garbled(text):
    with pytest.raises(FormatError):
        nvidia_smi.parse_topology(text)


@given(st.text(alphabet="GPU0123456789:.abcdefXNVPIBHSY \t\nMiB/A", max_size=300))
def test_any_text_gives_an_answer_or_a_format_error(text):
    for parse in (nvidia_smi.parse, nvidia_smi.parse_topology):
        with contextlib.suppress(FormatError):
            parse(text)
