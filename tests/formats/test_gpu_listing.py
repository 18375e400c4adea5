"""The GPUs in listings of nvidia-smi and lspci, and similar lines that list none."""

from __future__ import annotations

import pytest

from gdrkit.formats.gpu_listing import (
    ListedGpu,
    by_number,
    cuda_gpu_in,
    numbered_gpu_in,
    pci_gpu_in,
    smi_gpu_in,
)

ROW = "|   0  NVIDIA H100 PCIe               On  | 00000000:41:00.0 Off |                    0 |"
LISTED = "GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-6b1a)"
PCI = "01:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)"


def test_a_row_has_number_name_and_address_and_a_list_no_address():
    row, listed = smi_gpu_in(ROW), smi_gpu_in(LISTED)

    assert row is not None and listed is not None
    assert (row.number, row.name, row.address) == (0, "NVIDIA H100 PCIe", "00000000:41:00.0")
    assert (listed.number, listed.name, listed.address) == (1, "NVIDIA GeForce RTX 4090", "")


def test_a_line_of_lspci_has_the_device_id_where_it_is_printed():
    found = pci_gpu_in(PCI)

    assert found is not None
    assert (found.address, found.name, found.device) == ("01:00.0", "AD102 [GeForce RTX 4090]", "2684")
    assert pci_gpu_in("01:00.0 3D controller: NVIDIA Corporation Device 2331").device == ""


@pytest.mark.parametrize(
    "line",
    ["GPU 3: NVIDIA GeForce RTX 3090", "> GPU3: NVIDIA GeForce RTX 3090, 24576 MiB, driver 570.86",
     "3, NVIDIA GeForce RTX 3090, 24576 MiB", "- GPU 3: NVIDIA GeForce RTX 3090 (24 GB)",
     "#  Rank  7 Group  0 Pid   4711 on node7 device  3 [0000:c1:00] NVIDIA GeForce RTX 3090",
     "#   Rank  7 Pid  4711 on node7 device  3 [0xc1] NVIDIA GeForce RTX 3090"],
)  # fmt: skip
def test_programs_and_people_number_gpus_in_their_own_ways(line: str):
    found = numbered_gpu_in(line)

    assert found is not None
    assert (found.number, found.name) == (3, "NVIDIA GeForce RTX 3090")


@pytest.mark.parametrize(
    "line",
    [
        "GPU 3: 67 C, 240 W",
        "GPU3: NVLink to GPU4",
        "3, 4, NVIDIA",
        "01:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22ba] (rev a1)",
        "02:00.0 VGA compatible controller [0300]: Intel Corporation UHD [8086:9bc5]",
        "GPU 00000000:1B:00.0",
        "|   0  N/A  N/A      1234      C   python                         512MiB |",
        "",
    ],
)
def test_other_lines_list_no_gpu(line):
    assert numbered_gpu_in(line) is None
    assert pci_gpu_in(line) is None


def test_lspci_counts_by_address_if_it_lists_as_many_gpus():
    other = PCI.replace("01:00.0", "41:00.0").replace("AD102 [GeForce RTX 4090]", "GH100 [H100 PCIe]")

    assert [gpu.name for gpu in by_number([other, PCI], 2).values()] == [
        "AD102 [GeForce RTX 4090]", "GH100 [H100 PCIe]",
    ]  # fmt: skip
    assert by_number([other, PCI], 3) == {}


def test_a_number_with_two_names_is_left_out():
    assert by_number([LISTED, LISTED.replace("4090", "3090")], 2) == {}
    assert set(by_number([LISTED, ROW], 2)) == {0, 1}


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("GPU id:0; name: NVIDIA GeForce RTX 3090; Bus id: 0000:21:00", "0000:21:00.0"),
        ("Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0", "0000:01:00.0"),
        ("Device: 1, NVIDIA GeForce RTX 3090, pciBusID: c1, pciDeviceID: 0, pciDomainID:1", "0001:c1:00.0"),
    ],
)
def test_programs_of_cuda_list_gpus_by_address(line: str, address: str):
    found = cuda_gpu_in(line)
    assert found == ListedGpu(name="NVIDIA GeForce RTX 3090", address=address)


@pytest.mark.parametrize(
    "line", ["GPU id:0; name: NVIDIA GeForce RTX 3090", "the GPU id:0; name: NVIDIA L4; Bus id: 0000:21:00"]
)
def test_a_line_without_an_address_or_within_a_sentence_is_no_list(line: str):
    assert cuda_gpu_in(line) is None
