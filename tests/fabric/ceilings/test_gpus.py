"""The rates of a GPU by the name that a node shows."""

from __future__ import annotations

import pytest

from gdrkit.fabric.ceilings.gpus import GPUS, rates_of


@pytest.mark.parametrize(
    ("product", "row"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"), ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"), ("NVIDIA H200", "H200"), ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA GH200 480GB", "GH200"), ("NVIDIA GH200 144G HBM3e", "GH200-144GB"), ("NVIDIA GB10", "GB10"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"), ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"), ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA GB200", "GB200"), ("NVIDIA GB300", "GB300"), ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA H20", "H20"), ("NVIDIA H20-3e", "H20-3e"), ("NVIDIA H800", "H800"), ("NVIDIA L4", "L4"),
        ("NVIDIA A10", "A10"), ("NVIDIA A30", "A30"), ("NVIDIA A40", "A40"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000"),
        ("NVIDIA B200", "B200"), ("NVIDIA L40S", "L40S"), ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla V100-SXM2-32GB", "V100"), ("Tesla V100-PCIE-16GB", "V100-PCIe"), ("h200", "H200"),
    ],
)  # fmt: skip
def test_a_product_name_finds_its_row(product, row):
    assert rates_of(product).name == row


@pytest.mark.parametrize(
    "product",
    ["NVIDIA A10G", "NVIDIA A16", "NVIDIA H2", "NVIDIA L40", "NVIDIA A100X",
     "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NVIDIA RTX 6000 Ada Generation",
     "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", ""],
)  # fmt: skip
def test_a_similar_product_name_finds_nothing(product):
    assert rates_of(product) is None


def test_fp8_is_twice_as_fast_as_bf16():
    """So it is in every datasheet; those of five products round one of the two."""
    rounded = {"H100-PCIe": 1513, "H800-PCIe": 1513, "L4": 242.5, "L40S": 733, "RTX-4090": 330.3}
    known = {row.name: row for row in GPUS if row.fp8_tflop_per_s is not None}
    assert len(known) > len(rounded)
    assert {name: row.fp8_tflop_per_s for name, row in known.items()} == {
        name: rounded.get(name, 2 * row.bf16_tflop_per_s) for name, row in known.items()
    }


def test_a_b300_reads_an_eighth_of_what_its_board_does():
    """62 TB/s for eight GPUs, while each GPU of a GB300 has 8."""
    assert rates_of("NVIDIA B300 SXM6 AC").memory_gb_per_s * 8 == 62_000
    assert rates_of("NVIDIA GB300").memory_gb_per_s == 8000
