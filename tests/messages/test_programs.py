"""Lines of the programs that want GPU memory on the network, as they print them: each is recognised."""

from __future__ import annotations

import pytest

from gdrkit import catalogue
from gdrkit.programs import proofs
from tests.explain.explaining import explained
from tests.messages.samples import FILLING

FAILING = (
    # NVSHMEM
    ("/b/ibrc.cpp:1843: NULL value neither nv_peer_mem, or nvidia_peermem detected. Skipping transport.",
     "peermem-not-loaded"),
    ("mem registration failed. Reason: Bad address", "peermem-not-loaded"),
    ("mem registration failed. Reason: Cannot allocate memory", "memlock-limit"),
    ("ibv_reg_dmabuf_mr handle 0x7f54c8000 mr (nil)", "dmabuf-mr-refused"),
    ("WARN: device mlx5_0 cannot allocate buffer on the specified memory type. Skipping...",
     "nic-buffers-not-mappable"),
    ("WARN: device mlx5_1 does not support all necessary atomic operations. You may want to check the "
     "PCI_ATOMIC_MODE value in the NIC firmware. Skipping...", "nic-atomics-off"),
    ("WARN: device rocep1s0 is not enumerated as an mlx5 device. Skipping...", "nic-not-mlx5"),
    ("WARN: ibgda_alloc_and_map_qp_uar with GPU as handler failed. We may need to enter the CPU fallback "
     "path.", "ibgda-peer-mapping-denied"),
    ("NIC handler will be CPU with gdrcopy backend.", "ibgda-cpu-assisted"),
    ("NIC handler will be CPU with the selected GPU CPU mapping backend.", "ibgda-cpu-assisted"),
    ("CQE error: status=12 (IBV_WC_RETRY_EXC_ERR) vendor_err=0x81", "retry-exceeded"),
    ("/b/ibrc.cpp:840: non-zero status: 7 mem registration failed ", "peermem-not-loaded"),
    ("could not find user specified HCA name: mlx5_9 port: 1, skipping", "hca-not-selected"),
    ("GPU CPU mapping disabled: no usable GDRCopy or CUDA DMA-BUF backend.", "gdrcopy-not-loaded"),
    ("NVSHMEM_IBGDA_NIC_HANDLER=cpu requires GDRCopy.", "gdrcopy-not-loaded"),
    ("found inactive port or port with non-IB link layer protocol, skipping...", "port-down"),
    ("directNIC features are disabled by NVSHMEM_DISABLE_DATA_DIRECT=1", "data-direct-missing"),
    # DeepEP and NCCL's GIN
    ("NCCL GIN is unavailable. This is usually due to a network configuration issue", "gin-unavailable"),
    ("Prior to NCCL 2.31, NCCL compile-time and runtime versions must be the same. Please re-compile "
     "DeepEP.", "gin-library-mismatch"),
    ("GPUDirect RDMA with CUDA VMM is not supported on this device", "vmm-not-rdma-capable"),
    ("n1:7:7 [0] NCCL INFO Unable to use GIN: Peermem is not supported, nor DMA-BUF.", "peermem-not-loaded"),
    ("NCCL INFO Failed to get DMA-BUF handle for address range with type PCIE, error=1. Trying a different "
     "method.", "data-direct-missing"),
    ("Failed to create gpu umem with dmabuf. Fallback to legacy nvidia-peermem mode",
     "gdaki-kernel-too-old"),
    ("NVRM: osCreateOsDescriptorFromIoMemory(): permission denied, allowPeermapping=0",
     "ibgda-peer-mapping-denied"),
    # UCX and NIXL
    ("mlx5_0: cuda GPUDirect RDMA is not detected by checking /sys/kernel/mm/memory_peers/nv_mem/version",
     "peermem-not-loaded"),
    ("dmabuf is not supported on cuda device 0", "driver-proprietary"),
    (" 8 NVIDIA GPU(s) were detected, but UCX CUDA support was not found! ", "ucx-lacks-cuda"),
    # Mooncake
    ("Failed to register memory 0x7f54c8000: Bad address [14]", "peermem-not-loaded"),
    ("Failed to register memory 0x7f54c8000: Cannot allocate memory [12]", "memlock-limit"),
    ("Failed to retrieve dmabuf for 0x7f54c8000", "driver-proprietary"),
    # GDRCopy and GPUDirect Storage
    ("error opening driver (errno=2/No such file or directory)", "gdrcopy-not-loaded"),
    ("gdrdrv:gdrdrv_init:loading gdrdrv version 2.5 built for proprietary NVIDIA driver",
     "gdrcopy-built-for-proprietary"),
    ("nvidia-fs:Error ret -22 invoking nvidia_p2p_get_pages_persistent", "memory-not-registrable"),
    # EFA and its plugin
    ("NCCL INFO NET/OFI Support for DMA-BUF registrations: false", "ofi-dmabuf-off-by-default"),
    ("NCCL WARN NET/OFI GDR disabled on GDR-supported instance type p5.48xlarge", "efa-p2p-unavailable"),
    ("efa_nv_peermem: Nvidia proprietary is unsupported", "efa-peermem-proprietary-driver"),
)  # fmt: skip


@pytest.mark.parametrize(("line", "code"), FAILING)
def test_a_line_of_a_failure_has_its_likeliest_cause_first(line, code):
    found = catalogue.match(line)
    assert found is not None
    assert found.causes[0] == code


PROOFS = [row.sample or row.say(**FILLING) for row in proofs.ROWS]


@pytest.mark.parametrize("line", PROOFS)
def test_a_line_that_shows_what_is_in_use_is_a_fact_and_no_failure(line):
    assert catalogue.match(line) is None or not catalogue.match(line).causes
    for before in ("", "n1:7:7 [0] NCCL INFO ", "[   12.345678] ", "/b/common.cpp:108: "):
        (machine,) = explained(f"{before}{line}\n").machines
        (fact,) = machine.known
        assert fact.line == 1 and fact.value


@pytest.mark.parametrize(
    "line",
    [
        "ibv_reg_dmabuf_mr handle 0x7f54c8000 mr (nil)",
        "dmabuf is not supported on cuda device 0",
        "multi-node NVLINK support is requested but not supported",
        "NIC handler will be CPU with host memory backend.",
    ],
)
def test_a_line_that_shows_the_opposite_is_no_proof(line):
    assert proofs.matcher().match(line) is None


def test_a_container_without_the_cuda_runtime_is_another_problem():
    assert explained("Failed to load CUDA runtime library: libcudart.so.13\n").answer.cause is None
