"""Every message of the reference table that decides something is recognised, as programs print it."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from gdrkit import catalogue
from gdrkit.messages import registration
from gdrkit.programs import proofs
from gdrkit.programs.nccl.log_lines import frame, record
from tests.shared_data import shared_files

FILLED = {
    "mem registration failed": "mem registration failed. Reason: Bad address",
    "ibv_reg_dmabuf_mr handle": "ibv_reg_dmabuf_mr handle 0x7f54c8 mr 0x55d0c0",
    "Symmetric memory is not supported": "Symmetric memory is not supported. cuMemEnable 0, globalGinSupport"
    " 1, cuMemGdrSupport 1",
    "Assigned GIN plugin": "Assigned GIN plugin GIN_IB_PROXY to comm",
    "%s(): permission denied": "NVRM: osCreateOsDescriptorFromIoMemory(): permission denied,"
    " allowPeermapping=0",
    "%s: %s GPUDirect RDMA is %sdetected": "mlx5_0: cuda GPUDirect RDMA is not detected by checking /sys/x",
    "%s: %s GPUDirect RDMA is %s": "mlx5_0: cuda GPUDirect RDMA is disabled",
    "dmabuf is%s supported": "dmabuf is not supported on cuda device 0",
    "failed to register address": "failed to register address 0x7f54c8 (cuda) length 4096 dmabuf_fd 70"
    " access 0xf on mlx5_0: Bad address",
    "multi-node NVLINK support is %s": "multi-node NVLINK support is disabled",
    "Failed to register memory ": "Failed to register memory 0x7f54c8000000: Bad address [14]",
    "Failed to retrieve dmabuf": "Failed to retrieve dmabuf for 140000000000",
    "Failed to call cuMemGetAddressRange": "Failed to call cuMemGetAddressRange for 140000000000",
    "cuda dmabuf support status": "cuda dmabuf support status: 0",
    "Support for DMA-BUF registrations": "NET/OFI Support for DMA-BUF registrations: false",
    "failed [ret = %d]": "gdrdrv:__gdrdrv_pin_buffer:nvidia_p2p_get_pages(va=7f54c8 len=65536 p2p_token=0"
    " va_space=0 callback=0) failed [ret = -22]",
    "Error ret %d invoking nvidia_p2p_get_pages_p": "nvidia-fs:Error ret -22 invoking"
    " nvidia_p2p_get_pages_persistent",
    "Error ret %d invoking nvidia_p2p_get_pages": "nvidia-fs:Error ret -22 invoking nvidia_p2p_get_pages",
    "ibv_reg_mr failed (errno": "ibv_reg_mr failed (errno 14)",
    "ibv_reg_dmabuf_mr failed (errno": "ibv_reg_dmabuf_mr failed (errno 95)",
    "error opening driver": "error opening driver (errno=2/No such file or directory)",
    "Channel %02d": "Channel 00/0 : 0[0] -> 4[0] via P2P/MNNVL",
    "MNNVL busId": "MNNVL busId 0x901000 fabric UUID 6b2c.9f1e cliqueId 0x7ffe state 3 healthMask 0x0",
    "comm %p": "comm 0x55d0 rank 0 nRanks 8 nNodes 2 localRanks 4 localRank 0 MNNVL 0",
    "%s P2P support": "FI_HMEM_CUDA P2P support is not available.",
    "incompatible page table version": "gdrdrv:gdrdrv_pin:incompatible page table version 0x00020000",
    "using DMA-BUF for GPU": "using DMA-BUF for GPU buffer address at 0x7f54c8 aligned at 0x7f54c8 with"
    " aligned size 65536",
    "failed to ucp_mem_map": "failed to ucp_mem_map: Input/output error",
    "NvlinkTransport: cuMemImport": "NvlinkTransport: cuMemImportFromShareableHandle failed: 999",
}  # fmt: skip
"""Lines for templates whose values decide what they mean, by how the templates begin; longest first."""
VALUES = {"%p": "0x7f54c8000", "%s": "mlx5_0", "%m": "Operation not supported"}
NCCL = "n1:7:7 [0] NCCL INFO "


def line_of(template: str) -> str:
    known = [start for start in FILLED if template.startswith(start)]
    if known:
        return FILLED[max(known, key=len)]
    for placeholder, value in VALUES.items():
        template = template.replace(placeholder, value)
    return re.sub(r"%[#0-9]*(?:l{0,2}|z)[dux]", "3", template)


def is_recognised(line: str) -> bool:
    for text in (line, NCCL + line):
        found = catalogue.match(text)
        if found is not None and (found.causes or "error" in found.values):
            return True
        if (found and found.message.meaning) or proofs.matcher().match(text) or registration.causes(text):
            return True
    return record(frame(NCCL + line).message) is not None


@pytest.mark.parametrize("path", shared_files("facts/consumer-messages.tsv"))
def test_every_message_that_decides_is_recognised(path: Path):
    rows = list(csv.DictReader(path.open(encoding="utf-8"), delimiter="\t", quoting=csv.QUOTE_NONE))
    deciding = [row["template"] for row in rows if row["decides"] == "yes"]

    assert len(deciding) > 150
    assert [template for template in deciding if not is_recognised(line_of(template))] == []


REMARKS = (
    "Failed to create gpu umem",
    "RdmaTransport: Failed to register memory: addr 0x7f54c8000 length 4096",
    "Mellanox PeerDirect Supported: False",
    "DOCA_GPUNETIO_DISABLE_GDRCOPY is set, disabling GDRCopy",
    "No GPU device is explicitly mapped to RNIC mlx5_0; skip DMA-BUF affinity validation",
    "Using MNNVL transport (forced or no HCA detected)",
    "Using cross-node NVLink transport (MC_FORCE_MNNVL or no HCA detected)",
    "Memory region 0x7f54c8 is not allocated by cuMemCreate, ",
    "Using RDMA transport (RoCE/iWARP)",
    "CUDA memory registration - iface: FI_HMEM_CUDA, device.cuda: 0",
    "GPU touch not available in kernel plugin",
    "fabric_info: state=1 status=0 uuid=0",
    "NET/OFI Plugin selected platform: AWS",
    "NET/OFI Using Libfabric version 1.17",
)
"""Messages that do not decide alone, but have a meaning of their own."""


@pytest.mark.parametrize("line", REMARKS)
def test_a_message_that_does_not_decide_is_recognised_too(line: str):
    assert is_recognised(line)


@pytest.mark.parametrize(
    "line",
    [
        "NET/OFI Using Libfabric version 1.22",
        "NET/OFI Using Libfabric version 2.1",
        "fabric_info: state=3 status=0 uuid=6b2c",
        "multi-node NVLINK support is disabled",
        "Using RDMA transport in my cluster",
    ],
)
def test_a_similar_line_has_no_cause(line: str):
    found = catalogue.match(line)
    assert found is None or not found.causes
