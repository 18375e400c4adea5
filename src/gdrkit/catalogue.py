"""The registry of what gdrkit knows, above all that is registered: programs, rules by their code, messages.

Each table is loaded when it is first asked for, and a rule alone by its code: most commands need few.
The names of the programs are in programs/names.py, which imports nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gdrkit.programs.names import NAMES

if TYPE_CHECKING:
    from gdrkit.messages.message import Match, MessageMatcher, MessageTemplate
    from gdrkit.programs.consumer import Consumer
    from gdrkit.rules.rule import Rule

CODES: Mapping[str, str] = {
    # hardware
    "wsl": "rules.wsl",
    "device-not-answering": "rules.device_not_answering",
    "gpu-needs-reset": "rules.gpu_needs_reset",
    "gpu-refused-by-driver": "rules.gpu_refused",
    "nvswitch-fabric-down": "rules.nvswitch_fabric_down",
    "nic-failed": "rules.nic_failed",
    "gpu-excluded": "rules.gpu_refused",
    "gpu-passed-through": "rules.gpu_passed_through",
    "gpu-cdmm": "rules.gpu_cdmm",
    "gpu-integrated": "rules.gpu_kinds",
    "gpu-consumer": "rules.gpu_kinds",
    "gpu-before-turing": "rules.gpu_kinds",
    "gpu-vgpu": "rules.gpu_states",
    "gpu-confidential": "rules.gpu_states",
    "gpu-mig": "rules.gpu_states",
    "gpu-unsupported": "rules.gpu_unsupported",
    "no-gpu": "rules.no_gpu",
    "expected-gpu-missing": "rules.expectation",
    "gpu-missing": "rules.missing_neighbours",
    "no-rdma-device": "rules.no_rdma_device",
    "expected-nic-missing": "rules.expectation",
    "nic-missing": "rules.missing_neighbours",
    "unexpected-device": "rules.expectation",
    "port-down": "rules.rdma_ports",
    "port-on-one-lane": "rules.rdma_ports",
    "port-slower-than-others": "rules.rdma_ports",
    "rdma-device-software": "rules.rdma_ports",
    "efa-gdr-unsupported-instance": "programs.aws_ofi_nccl.rules",
    "no-efa-device": "programs.aws_ofi_nccl.rules",
    "mnnvl-clique-differs": "programs.mnnvl.rules",
    "mnnvl-fabric-incomplete": "programs.mnnvl.rules",
    "no-mnnvl": "programs.mnnvl.rules",
    # firmware
    "bar1-small": "rules.bar1",
    "bar1-exhausted": "rules.bar1",
    "expected-firmware-differs": "rules.expectation",
    "link-layer-differs": "rules.link_layer_differs",
    "mkeys-exhausted": "programs.verbs.rules",
    "nic-atomics-off": "rules.gpu_initiated",
    # kernel
    "module-not-found": "rules.module_not_found",
    "install-override": "rules.module_configuration",
    "module-unsupported": "rules.module_configuration",
    "modules-disabled": "rules.module_admission",
    "module-signature-broken": "rules.module_signature",
    "module-key-revoked": "rules.module_signature",
    "module-unsigned": "rules.module_signature",
    "module-unknown-key": "rules.module_signature",
    "lockdown-blocks-module": "rules.module_signature",
    "module-corrupt": "rules.module_build",
    "module-blacklisted": "rules.module_admission",
    "module-wrong-kernel": "rules.module_build",
    "module-symbol-missing": "rules.module_symbols",
    "module-symbol-gpl-only": "rules.module_symbols",
    "module-crc-mismatch": "rules.module_symbols",
    "module-symbol-namespace": "rules.module_symbols",
    "module-symbol-duplicate": "rules.module_symbols",
    "module-bad-parameter": "rules.module_configuration",
    "dependency-failed": "rules.dependency_failed",
    "init-failed": "rules.init_failed",
    "mixed-signers": "rules.mixed_signers",
    "kernel-lacks-dmabuf": "rules.kernel_lacks_dmabuf",
    "kernel-lacks-odp": "rules.kernel_lacks_odp",
    "memory-held-for-kexec": "rules.memory_held_for_kexec",
    "gdaki-kernel-too-old": "rules.gpu_initiated",
    "kernel-arguments-cut": "rules.kernel_arguments_cut",
    # driver
    "driver-mismatch": "rules.driver_mismatch",
    "driver-modified": "rules.driver_modified",
    "driver-not-loaded": "rules.driver_not_loaded",
    "driver-proprietary": "rules.driver_proprietary",
    "legacy-nv-peer-mem": "rules.legacy_nv_peer_mem",
    "lock-inversion": "rules.lock_inversion",
    "p2p-page-table-version": "rules.p2p_page_table_version",
    "peermem-blocks-ofed": "rules.peermem_blocks_ofed",
    "peermem-not-loaded": "rules.peermem_not_loaded",
    "peermem-not-persistent": "rules.peermem_not_persistent",
    "peermem-redundant": "rules.peermem_redundant",
    "peermem-registration-refused": "rules.peermem_registration_refused",
    "peermem-stub": "rules.peermem_stub",
    "topology-refused": "rules.topology_refused",
    "device-file-stale": "rules.device_file_stale",
    "efa-mapping-refused": "rules.efa_mapping_refused",
    "efa-peermem-proprietary-driver": "programs.aws_ofi_nccl.rules",
    "gcp-devices-missing": "rules.tcp_to_gpu",
    "gdrcopy-built-for-proprietary": "programs.gdrcopy.rules",
    "gdrcopy-not-loaded": "programs.gdrcopy.rules",
    "gdrcopy-version-mismatch": "programs.gdrcopy.rules",
    "ibgda-peer-mapping-denied": "rules.gpu_initiated",
    "mnnvl-imex-channel-missing": "programs.mnnvl.rules",
    "nvidia-fs-not-loaded": "programs.gds.rules",
    "nvidia-fs-symbols-missing": "programs.gds.rules",
    # rdma
    "data-direct-missing": "rules.data_direct_missing",
    "dmabuf-mr-refused": "rules.dmabuf_registration",
    "dmabuf-no-p2p-importer": "rules.dmabuf_registration",
    "memlock-limit": "rules.memlock_limit",
    "memory-not-registrable": "rules.memory_not_registrable",
    "ofed-multiple-dkms": "rules.ofed_multiple_dkms",
    "ofed-rebuilt-after-driver": "rules.ofed_rebuilt_after_driver",
    "rdma-device-not-in-container": "rules.rdma_device_not_in_container",
    "umad-device-missing": "rules.umad_device_missing",
    "driver-ignores-peer-memory": "rules.driver_ignores_peer_memory",
    "rdma-lacks-peer-api": "rules.rdma_lacks_peer_api",
    "verbs-lacks-dmabuf": "programs.verbs.rules",
    "provider-lacks-dmabuf": "programs.verbs.rules",
    "devmem-header-split-off": "rules.tcp_to_gpu",
    "efa-driver-too-old": "programs.aws_ofi_nccl.rules",
    "efa-p2p-unavailable": "programs.aws_ofi_nccl.rules",
    "nic-buffers-not-mappable": "rules.gpu_initiated",
    "nic-not-mlx5": "programs.gpu_initiated",
    # pcie
    "acs-redirect": "rules.acs_redirect",
    "acs-bits-differ": "rules.acs_bits_differ",
    "nic-ats-unexpected": "rules.nic_ats_unexpected",
    "iommu-translating": "rules.iommu",
    "iommu-groups-differ": "rules.iommu",
    "iommu-groups-shared": "rules.iommu",
    "expected-rail-differs": "rules.expectation",
    "link-degraded": "rules.links",
    "link-narrower-than-port": "rules.links",
    "pair-distant": "programs.nccl.distance_rules",
    "pair-cross-socket": "programs.nccl.distance_rules",
    "read-request-small": "rules.read_request_small",
    "shared-nic": "rules.shared_nic",
    # library
    "expected-version-differs": "rules.expectation",
    "nccl-lacks-dmabuf": "programs.nccl.library_rules",
    "nccl-misses-peermem": "programs.nccl.library_rules",
    "nccl-skips-efa": "programs.nccl.library_rules",
    "net-plugin-replaced": "programs.nccl.library_rules",
    "nvshmem-misses-peermem": "programs.nvshmem.rules",
    "perftest-tests-other-path": "programs.verbs.rules",
    "send-needs-nvlink": "programs.nccl.gpu_rules",
    "ucx-lacks-dmabuf": "programs.ucx.rules",
    "ucx-misses-peermem": "programs.ucx.rules",
    "verbs-library-old": "programs.verbs.rules",
    "gin-library-mismatch": "programs.nccl_gin.rules",
    "libfabric-too-old": "programs.aws_ofi_nccl.rules",
    "ofi-lacks-hmem": "programs.aws_ofi_nccl.rules",
    "ucx-lacks-cuda": "programs.ucx.rules",
    "ucx-lacks-verbs": "programs.ucx.rules",
    "verbs-library-missing": "programs.verbs.rules",
    "verbs-provider-mismatch": "programs.verbs.rules",
    # application
    "dmabuf-disabled-by-env": "programs.disabled_by_env",
    "env-differs-between-ranks": "programs.nccl.log_rules",
    "gdr-level-ignored": "programs.nccl.distance_rules",
    "gdr-level-pxb-on-c2c": "programs.nccl.distance_rules",
    "gdr-level-too-low": "programs.nccl.distance_rules",
    "gdr-read-off": "programs.nccl.setting_rules",
    "gid-index-wrong": "programs.nccl.setting_rules",
    "hca-not-selected": "programs.nccl.setting_rules",
    "ib-disabled-by-env": "programs.disabled_by_env",
    "manifest-invalid": "rules.manifest_invalid",
    "operator-module-missing": "rules.gpu_operator",
    "operator-ofed-changed": "rules.gpu_operator",
    "operator-stub": "rules.gpu_operator",
    "operator-waits-for-ofed": "rules.gpu_operator",
    "policy-duplicate-key": "rules.policy_duplicate_key",
    "proof-misread": "programs.nccl.log_rules",
    "retry-exceeded": "programs.nccl.log_rules",
    "rail-unreachable": "programs.nccl.log_rules",
    "talos-no-peermem": "rules.talos_no_peermem",
    "versions-differ-between-ranks": "programs.nccl.log_rules",
    "gdr-disabled-by-env": "programs.transport_choice",
    "gds-compat-mode": "programs.gds.rules",
    "gds-p2pdma-off": "programs.gds.rules",
    "gin-nics-fused": "programs.nccl_gin.rules",
    "gin-unavailable": "programs.nccl_gin.rules",
    "ibgda-cpu-assisted": "programs.gpu_initiated",
    "mnnvl-cumem-off": "programs.mnnvl.rules",
    "mnnvl-disabled-by-env": "programs.mnnvl.rules",
    "mnnvl-imex-not-ready": "programs.mnnvl.rules",
    "mooncake-forces-dmabuf": "programs.mooncake.rules",
    "mooncake-forces-peermem": "programs.mooncake.rules",
    "ofi-dmabuf-off-by-default": "programs.aws_ofi_nccl.rules",
    "gpu-shared-by-ranks": "programs.nccl.log_rules",
    "rdma-transport-not-chosen": "programs.transport_choice",
    "tcpx-rxdm-missing": "rules.tcp_to_gpu",
    "torch-expandable-segments": "programs.transport_choice",
    "ucx-transport-excluded": "programs.ucx.rules",
    "vmm-not-rdma-capable": "rules.vmm_not_rdma_capable",
}
"""The module that declares each code, by layer from the hardware up. The order is that of findings which are
otherwise alike. It is written by hand, since only loading all rules would show which codes there are."""

CALLED_FOR_BY: Mapping[str, frozenset[str]] = {
    "a GPU": frozenset((
        "programs.nccl.gpu_rules", "rules.acs_bits_differ", "rules.acs_redirect", "rules.bar1",
        "rules.dependency_failed", "rules.driver_not_loaded", "rules.efa_mapping_refused", "rules.gpu_cdmm",
        "rules.gpu_kinds", "rules.gpu_needs_reset", "rules.gpu_passed_through", "rules.gpu_refused",
        "rules.gpu_states", "rules.gpu_unsupported", "rules.init_failed", "rules.lock_inversion",
        "rules.memory_not_registrable", "rules.module_admission", "rules.module_build",
        "rules.module_configuration", "rules.module_not_found", "rules.module_signature",
        "rules.module_symbols", "rules.nvswitch_fabric_down", "rules.ofed_rebuilt_after_driver",
        "rules.peermem_blocks_ofed", "rules.peermem_not_loaded", "rules.peermem_not_persistent",
        "rules.peermem_redundant", "rules.peermem_registration_refused", "rules.peermem_stub",
        "rules.rdma_lacks_peer_api", "rules.topology_refused", "rules.vmm_not_rdma_capable",
    )),
    "a NIC": frozenset((
        "programs.nccl.gpu_rules", "rules.acs_redirect", "rules.data_direct_missing",
        "rules.dmabuf_registration", "rules.driver_ignores_peer_memory", "rules.efa_mapping_refused",
        "rules.gpu_cdmm", "rules.kernel_lacks_dmabuf", "rules.kernel_lacks_odp",
        "rules.link_layer_differs", "rules.memlock_limit", "rules.memory_held_for_kexec",
        "rules.nic_ats_unexpected", "rules.nic_failed", "rules.rdma_device_not_in_container",
        "rules.rdma_ports", "rules.read_request_small", "rules.shared_nic", "rules.topology_refused",
    )),
    "a GPU or a NIC": frozenset((
        "rules.device_not_answering", "rules.iommu", "rules.links",
    )),
    "NVIDIA's driver": frozenset((
        "rules.driver_mismatch", "rules.driver_modified", "rules.driver_proprietary", "rules.mixed_signers",
    )),
    "pods": frozenset((
        "rules.gpu_operator", "rules.manifest_invalid", "rules.policy_duplicate_key",
        "rules.talos_no_peermem",
    )),
    "a log of a job": frozenset((
        "programs.nccl.log_rules",
    )),
    "an expectation": frozenset((
        "rules.expectation",
    )),
    "a message": frozenset((
        "rules.device_file_stale", "rules.tcp_to_gpu", "rules.umad_device_missing",
    )),
}  # fmt: skip
"""What calls for some modules of rules. Where a node is known to lack it, none of their rules has a subject
or applies, so they are not loaded; a module that is named nowhere here is loaded for every node.
verdict/called_for.py knows when a node lacks it; tests/verdict/test_called_for.py proves every entry, and
that none is missing."""

Code = Annotated[str, Meta(extra_json_schema={"enum": sorted(CODES)})]
"""A code, for the documents: their schemas list every one."""

MESSAGES = (
    "messages.faults.ROWS",
    "messages.gloo.ROWS",
    "messages.jobs.ROWS",
    "messages.terminations.ROWS",
    "programs.verbs.perftest_messages.ROWS",
    "programs.*.messages.ROWS",
    "programs.verbs.messages.ROWS",
    "messages.driver.ROWS",
    "messages.admission.ROWS",
    "messages.operator.ROWS",
    "messages.modprobe.ROWS",
    "messages.kernel.ROWS",
    "messages.modprobe.LOADERS",
    "programs.nccl.messages.ROWS",
    "programs.nccl.network_messages.ROWS",
    "messages.system.ROWS",
    "messages.libraries.ROWS",
)
"""The tables of messages; `*` stands for each program that has messages and is not listed itself. The first
row that a line contains is its match, so rows of one program precede general ones, as those of verbs."""


# -- programs ------------------------------------------------------------------------------------------


@functools.cache
def every_consumer() -> tuple[Consumer, ...]:
    """Every program that gdrkit checks paths for; the first one is the default."""
    return tuple(map(consumer_of, NAMES))


@functools.cache
def consumer_of(name: str) -> Consumer:
    """The program of that name."""
    module = name.replace("-", "_")
    consumer: Consumer = getattr(import_module(f"gdrkit.programs.{module}.consumer"), module.upper())
    return consumer


# -- rules ---------------------------------------------------------------------------------------------


@functools.cache
def rule_of(code: str) -> Rule:
    """The rule that decides a code."""
    from gdrkit.rules.rule import Rule

    module = import_module(f"gdrkit.{CODES[code]}")
    declared = [one for one in vars(module).values() if isinstance(one, Rule) and one.code == code]
    if not declared:  # made of the switches of every program
        from gdrkit.programs.disabled_by_env import rules_about_switches

        declared = [one for one in rules_about_switches(every_consumer()) if one.code == code]
    return declared[0]


@functools.cache
def every_rule() -> tuple[Rule, ...]:
    """Every rule, in the order of the codes."""
    return tuple(map(rule_of, CODES))


# -- messages ------------------------------------------------------------------------------------------


@functools.cache
def every_message() -> tuple[MessageTemplate, ...]:
    """All messages."""
    tables = (table.rpartition(".") for table in message_tables())
    return tuple(
        row for module, _, name in tables for row in getattr(import_module(f"gdrkit.{module}"), name)
    )


def message_tables() -> Iterator[str]:
    """The tables of messages, with those of each program."""
    from importlib.util import find_spec

    for table in MESSAGES:
        programs = NAMES if "*" in table else ("",)
        for one in (table.replace("*", program.replace("-", "_")) for program in programs):
            if one == table or (one not in MESSAGES and find_spec(f"gdrkit.{one.rpartition('.')[0]}")):
                yield one


MATCHED_LINES = 4096
"""Lines whose match is kept: several readers of a text ask for the same ones."""


@functools.lru_cache(maxsize=MATCHED_LINES)
def match(text: str, number: int = 0) -> Match | None:
    """The first message that a line contains, after any text; None if it contains none."""
    return matcher().match(text, number)


@functools.cache
def matcher() -> MessageMatcher:
    """What finds the messages in a line."""
    from gdrkit.messages.message import MessageMatcher

    return MessageMatcher(every_message())
