"""Every rule, from the ground up; the loader's, in the kernel's order. PURE."""

from __future__ import annotations

from gdrkit.rules.acs_redirect import acs_redirect
from gdrkit.rules.bar1 import bar1_exhausted, bar1_small
from gdrkit.rules.data_direct_missing import data_direct_missing
from gdrkit.rules.dependency_failed import dependency_failed
from gdrkit.rules.dmabuf_registration import dmabuf_mr_refused, dmabuf_no_p2p_importer
from gdrkit.rules.gpu_cdmm import gpu_cdmm
from gdrkit.rules.gpu_kinds import gpu_before_turing, gpu_consumer, gpu_integrated
from gdrkit.rules.gpu_states import gpu_confidential, gpu_mig, gpu_vgpu
from gdrkit.rules.gpu_unsupported import gpu_unsupported
from gdrkit.rules.init_failed import init_failed
from gdrkit.rules.iommu import iommu_groups_differ, iommu_translating
from gdrkit.rules.links import link_degraded, link_narrower_than_port
from gdrkit.rules.load_order import BEFORE_THE_KERNEL, KERNEL_CHECKS
from gdrkit.rules.memory_not_registrable import memory_not_registrable
from gdrkit.rules.mixed_signers import mixed_signers
from gdrkit.rules.no_gpu import no_gpu
from gdrkit.rules.no_rdma_device import no_rdma_device
from gdrkit.rules.pair_distance import pair_cross_socket, pair_distant
from gdrkit.rules.peermem_stub import peermem_stub
from gdrkit.rules.rdma_device_not_in_container import rdma_device_not_in_container
from gdrkit.rules.rdma_ports import port_down, rdma_device_software
from gdrkit.rules.read_request_small import read_request_small
from gdrkit.rules.rule import Rule
from gdrkit.rules.shared_nic import shared_nic
from gdrkit.rules.wsl import wsl

HARDWARE: tuple[Rule, ...] = (
    wsl,
    no_gpu,
    no_rdma_device,
    port_down,
    gpu_integrated,
    gpu_consumer,
    gpu_unsupported,
    gpu_vgpu,
    gpu_confidential,
    gpu_mig,
    gpu_cdmm,
    gpu_before_turing,
    rdma_device_software,
)
FIRMWARE: tuple[Rule, ...] = (bar1_exhausted, bar1_small)
KERNEL: tuple[Rule, ...] = (
    *BEFORE_THE_KERNEL,
    *KERNEL_CHECKS,
    dependency_failed,
    init_failed,
    mixed_signers,
)
LOAD_ORDER: tuple[Rule, ...] = (
    *BEFORE_THE_KERNEL,
    dependency_failed,
    *KERNEL_CHECKS,
    peermem_stub,
    init_failed,
)
"""The order in which a module runs into them: modprobe's, then the kernel's, then its own init's."""
RDMA: tuple[Rule, ...] = (
    dmabuf_mr_refused,
    dmabuf_no_p2p_importer,
    data_direct_missing,
    memory_not_registrable,
    rdma_device_not_in_container,
)
PCIE: tuple[Rule, ...] = (
    acs_redirect,
    iommu_translating,
    iommu_groups_differ,
    link_degraded,
    link_narrower_than_port,
    pair_distant,
    pair_cross_socket,
    read_request_small,
    shared_nic,
)

RULES: tuple[Rule, ...] = (*HARDWARE, *FIRMWARE, *KERNEL, *RDMA, *PCIE)
