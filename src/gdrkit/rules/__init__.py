"""Every rule, by layer, from the hardware up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from gdrkit.rules.acs_redirect import acs_redirect
from gdrkit.rules.bar1 import bar1_exhausted, bar1_small
from gdrkit.rules.consumer_versions import (
    nccl_lacks_dmabuf,
    nccl_misses_peermem,
    ucx_lacks_dmabuf,
    ucx_misses_peermem,
)
from gdrkit.rules.data_direct_missing import data_direct_missing
from gdrkit.rules.dependency_failed import dependency_failed
from gdrkit.rules.disabled_by_env import dmabuf_disabled_by_env, gdr_read_off, ib_disabled_by_env
from gdrkit.rules.dmabuf_registration import dmabuf_mr_refused, dmabuf_no_p2p_importer
from gdrkit.rules.driver_mismatch import driver_mismatch
from gdrkit.rules.driver_modified import driver_modified
from gdrkit.rules.driver_not_loaded import driver_not_loaded
from gdrkit.rules.driver_proprietary import driver_proprietary
from gdrkit.rules.efa import (
    efa_driver_too_old,
    efa_gdr_unsupported_instance,
    efa_p2p_unavailable,
    efa_peermem_proprietary_driver,
    libfabric_too_old,
    no_efa_device,
    ofi_dmabuf_off_by_default,
    ofi_lacks_hmem,
)
from gdrkit.rules.expectation import (
    expected_firmware_differs,
    expected_gpu_missing,
    expected_nic_missing,
    expected_rail_differs,
    expected_version_differs,
    unexpected_device,
)
from gdrkit.rules.gdr_level import gdr_level_ignored, gdr_level_pxb_on_c2c, gdr_level_too_low
from gdrkit.rules.gdrcopy import (
    gdrcopy_built_for_proprietary,
    gdrcopy_not_loaded,
    gdrcopy_version_mismatch,
)
from gdrkit.rules.gid_index_wrong import gid_index_wrong
from gdrkit.rules.gin import gin_library_mismatch, gin_nics_fused, gin_unavailable
from gdrkit.rules.gpu_cdmm import gpu_cdmm
from gdrkit.rules.gpu_initiated import (
    gdaki_kernel_too_old,
    ibgda_cpu_assisted,
    ibgda_peer_mapping_denied,
    nic_atomics_off,
    nic_buffers_not_mappable,
    nic_not_mlx5,
)
from gdrkit.rules.gpu_kinds import gpu_before_turing, gpu_consumer, gpu_integrated
from gdrkit.rules.gpu_operator import (
    operator_module_missing,
    operator_ofed_changed,
    operator_stub,
    operator_waits_for_ofed,
)
from gdrkit.rules.gpu_passed_through import gpu_passed_through
from gdrkit.rules.gpu_states import gpu_confidential, gpu_mig, gpu_vgpu
from gdrkit.rules.gpu_unsupported import gpu_unsupported
from gdrkit.rules.hca_not_selected import hca_not_selected
from gdrkit.rules.init_failed import init_failed
from gdrkit.rules.iommu import iommu_groups_differ, iommu_translating
from gdrkit.rules.job_devices import gpu_shared_by_ranks, umad_device_missing
from gdrkit.rules.kernel_arguments_cut import kernel_arguments_cut
from gdrkit.rules.kernel_lacks_dmabuf import kernel_lacks_dmabuf
from gdrkit.rules.kernel_lacks_odp import kernel_lacks_odp
from gdrkit.rules.legacy_nv_peer_mem import legacy_nv_peer_mem
from gdrkit.rules.links import link_degraded, link_narrower_than_port
from gdrkit.rules.load_order import OF_ANY_MODULE, in_load_order
from gdrkit.rules.lock_inversion import lock_inversion
from gdrkit.rules.manifest_invalid import manifest_invalid
from gdrkit.rules.memlock_limit import memlock_limit
from gdrkit.rules.memory_not_registrable import memory_not_registrable
from gdrkit.rules.missing_neighbours import gpu_missing, nic_missing
from gdrkit.rules.mixed_signers import mixed_signers
from gdrkit.rules.mnnvl import (
    mnnvl_clique_differs,
    mnnvl_cumem_off,
    mnnvl_disabled_by_env,
    mnnvl_fabric_incomplete,
    mnnvl_imex_channel_missing,
    mnnvl_imex_not_ready,
    no_mnnvl,
)
from gdrkit.rules.mooncake import mooncake_forces_dmabuf, mooncake_forces_peermem
from gdrkit.rules.net_plugin_replaced import net_plugin_replaced
from gdrkit.rules.no_gpu import no_gpu
from gdrkit.rules.no_rdma_device import no_rdma_device
from gdrkit.rules.nvshmem_misses_peermem import nvshmem_misses_peermem
from gdrkit.rules.ofed_multiple_dkms import ofed_multiple_dkms
from gdrkit.rules.ofed_rebuilt_after_driver import ofed_rebuilt_after_driver
from gdrkit.rules.p2p_page_table_version import p2p_page_table_version
from gdrkit.rules.pair_distance import pair_cross_socket, pair_distant
from gdrkit.rules.peermem_blocks_ofed import peermem_blocks_ofed
from gdrkit.rules.peermem_not_loaded import peermem_not_loaded
from gdrkit.rules.peermem_not_persistent import peermem_not_persistent
from gdrkit.rules.peermem_redundant import peermem_redundant
from gdrkit.rules.peermem_registration_refused import peermem_registration_refused
from gdrkit.rules.peermem_stub import peermem_stub
from gdrkit.rules.perftest_tests_other_path import perftest_tests_other_path
from gdrkit.rules.policy_duplicate_key import policy_duplicate_key
from gdrkit.rules.proof_misread import proof_misread
from gdrkit.rules.rail_unreachable import rail_unreachable
from gdrkit.rules.ranks_differ import env_differs_between_ranks, versions_differ_between_ranks
from gdrkit.rules.rdma_device_not_in_container import rdma_device_not_in_container
from gdrkit.rules.rdma_lacks_peer_api import rdma_lacks_peer_api
from gdrkit.rules.rdma_ports import port_down, rdma_device_software
from gdrkit.rules.read_request_small import read_request_small
from gdrkit.rules.retry_exceeded import retry_exceeded
from gdrkit.rules.rule import Rule
from gdrkit.rules.send_needs_nvlink import send_needs_nvlink
from gdrkit.rules.shared_nic import shared_nic
from gdrkit.rules.storage import (
    gds_compat_mode,
    gds_p2pdma_off,
    nvidia_fs_not_loaded,
    nvidia_fs_symbols_missing,
)
from gdrkit.rules.talos_no_peermem import talos_no_peermem
from gdrkit.rules.tcp_to_gpu import (
    devmem_header_split_off,
    gcp_devices_missing,
    tcpx_rxdm_missing,
)
from gdrkit.rules.topology_refused import topology_refused
from gdrkit.rules.transport_choice import (
    gdr_disabled_by_env,
    rdma_transport_not_chosen,
    torch_expandable_segments,
    ucx_lacks_cuda,
    ucx_transport_excluded,
)
from gdrkit.rules.verbs_lacks_dmabuf import verbs_lacks_dmabuf
from gdrkit.rules.verbs_libraries import (
    mkeys_exhausted,
    verbs_library_missing,
    verbs_provider_mismatch,
)
from gdrkit.rules.verbs_library_old import verbs_library_old
from gdrkit.rules.vmm_not_rdma_capable import vmm_not_rdma_capable
from gdrkit.rules.wsl import wsl

HARDWARE: tuple[Rule, ...] = (
    wsl,
    gpu_passed_through,
    gpu_cdmm,
    gpu_integrated,
    gpu_consumer,
    gpu_before_turing,
    gpu_vgpu,
    gpu_confidential,
    gpu_mig,
    gpu_unsupported,
    no_gpu,
    expected_gpu_missing,
    gpu_missing,
    no_rdma_device,
    expected_nic_missing,
    nic_missing,
    unexpected_device,
    port_down,
    rdma_device_software,
    efa_gdr_unsupported_instance,
    no_efa_device,
    mnnvl_clique_differs,
    mnnvl_fabric_incomplete,
    no_mnnvl,
)
FIRMWARE: tuple[Rule, ...] = (
    bar1_small,
    bar1_exhausted,
    expected_firmware_differs,
    mkeys_exhausted,
    nic_atomics_off,
)
KERNEL: tuple[Rule, ...] = (
    *OF_ANY_MODULE,
    dependency_failed,
    init_failed,
    mixed_signers,
    kernel_lacks_dmabuf,
    kernel_lacks_odp,
    gdaki_kernel_too_old,
    kernel_arguments_cut,
)
DRIVER: tuple[Rule, ...] = (
    driver_mismatch,
    driver_modified,
    driver_not_loaded,
    driver_proprietary,
    legacy_nv_peer_mem,
    lock_inversion,
    p2p_page_table_version,
    peermem_blocks_ofed,
    peermem_not_loaded,
    peermem_not_persistent,
    peermem_redundant,
    peermem_registration_refused,
    peermem_stub,
    topology_refused,
    efa_peermem_proprietary_driver,
    gcp_devices_missing,
    gdrcopy_built_for_proprietary,
    gdrcopy_not_loaded,
    gdrcopy_version_mismatch,
    ibgda_peer_mapping_denied,
    mnnvl_imex_channel_missing,
    nvidia_fs_not_loaded,
    nvidia_fs_symbols_missing,
)
RDMA: tuple[Rule, ...] = (
    data_direct_missing,
    dmabuf_mr_refused,
    dmabuf_no_p2p_importer,
    memlock_limit,
    memory_not_registrable,
    ofed_multiple_dkms,
    ofed_rebuilt_after_driver,
    rdma_device_not_in_container,
    umad_device_missing,
    rdma_lacks_peer_api,
    verbs_lacks_dmabuf,
    devmem_header_split_off,
    efa_driver_too_old,
    efa_p2p_unavailable,
    nic_buffers_not_mappable,
    nic_not_mlx5,
)
PCIE: tuple[Rule, ...] = (
    acs_redirect,
    iommu_translating,
    iommu_groups_differ,
    expected_rail_differs,
    link_degraded,
    link_narrower_than_port,
    pair_distant,
    pair_cross_socket,
    read_request_small,
    shared_nic,
)
LIBRARY: tuple[Rule, ...] = (
    expected_version_differs,
    nccl_lacks_dmabuf,
    nccl_misses_peermem,
    net_plugin_replaced,
    nvshmem_misses_peermem,
    perftest_tests_other_path,
    send_needs_nvlink,
    ucx_lacks_dmabuf,
    ucx_misses_peermem,
    verbs_library_old,
    gin_library_mismatch,
    libfabric_too_old,
    ofi_lacks_hmem,
    ucx_lacks_cuda,
    verbs_library_missing,
    verbs_provider_mismatch,
)
APPLICATION: tuple[Rule, ...] = (
    dmabuf_disabled_by_env,
    env_differs_between_ranks,
    gdr_level_ignored,
    gdr_level_pxb_on_c2c,
    gdr_level_too_low,
    gdr_read_off,
    gid_index_wrong,
    hca_not_selected,
    ib_disabled_by_env,
    manifest_invalid,
    operator_module_missing,
    operator_ofed_changed,
    operator_stub,
    operator_waits_for_ofed,
    policy_duplicate_key,
    proof_misread,
    retry_exceeded,
    rail_unreachable,
    talos_no_peermem,
    versions_differ_between_ranks,
    gdr_disabled_by_env,
    gds_compat_mode,
    gds_p2pdma_off,
    gin_nics_fused,
    gin_unavailable,
    ibgda_cpu_assisted,
    mnnvl_cumem_off,
    mnnvl_disabled_by_env,
    mnnvl_imex_not_ready,
    mooncake_forces_dmabuf,
    mooncake_forces_peermem,
    ofi_dmabuf_off_by_default,
    gpu_shared_by_ranks,
    rdma_transport_not_chosen,
    tcpx_rxdm_missing,
    torch_expandable_segments,
    ucx_transport_excluded,
    vmm_not_rdma_capable,
)

RULES: tuple[Rule, ...] = (
    *HARDWARE, *FIRMWARE, *KERNEL, *DRIVER, *RDMA, *PCIE, *LIBRARY, *APPLICATION,
)  # fmt: skip

BY_CODE: Mapping[str, Rule] = {rule.code: rule for rule in RULES}
Code = Annotated[str, Meta(extra_json_schema={"enum": sorted(BY_CODE)})]
"""A code, for the documents: their schemas list every one."""
LOAD_ORDER: tuple[Rule, ...] = in_load_order(RULES)
"""The rules about loading a module, in the order in which modprobe and the kernel check."""
