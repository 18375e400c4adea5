"""The names of the remedies, in the order in which they are tried for one code.

Rules refer to these names. What a remedy does is defined in repair/remedies/, which imports the rules.
"""

from __future__ import annotations

import enum


class RemedyName(enum.StrEnum):
    """A remedy, as `gdr fix --steps` and the JSON documents name it."""

    BUILD_DRIVER_FOR_KERNEL = "build-driver-for-kernel"
    RELEASE_GPU = "release-gpu"
    LOAD_DRIVER = "load-driver"
    REBOOT = "reboot"
    START_FABRIC_MANAGER = "start-fabric-manager"
    RESET_GPU = "reset-gpu"
    RESET_NIC = "reset-nic"
    POWER_CYCLE = "power-cycle"
    USE_DMABUF = "use-dmabuf"
    OPEN_KERNEL_MODULES = "open-kernel-modules"
    UPGRADE_RDMA_CORE = "upgrade-rdma-core"
    UPGRADE_NCCL = "upgrade-nccl"
    SIGN_MODULE = "sign-module"
    ALLOW_MODULE = "allow-module"
    ALLOW_UNSUPPORTED = "allow-unsupported"
    INSTALL_OFED = "install-ofed"
    RESTART_OFED = "restart-ofed"
    REBUILD_DRIVER = "rebuild-driver"
    REMOVE_NV_PEER_MEM = "remove-nv-peer-mem"
    LOAD_PEERMEM = "load-peermem"
    PERSIST_PEERMEM = "persist-peermem"
    OVERRIDE_TOPOLOGY_CHECK = "override-topology-check"
    USE_DRIVER_580 = "use-driver-580"
    SET_ACS_BITS = "set-acs-bits"
    CLEAR_ACS_REDIRECT = "clear-acs-redirect"
    IOMMU_PASSTHROUGH = "iommu-passthrough"
    ENLARGE_BAR1 = "enlarge-bar1"
    RAISE_MEMLOCK = "raise-memlock"
    RAISE_READ_REQUEST = "raise-read-request"
    ALLOW_PEER_MAPPING = "allow-peer-mapping"
    CREATE_IMEX_CHANNEL = "create-imex-channel"
    MOONCAKE_USE_DMABUF = "mooncake-use-dmabuf"
    MOONCAKE_USE_PEERMEM = "mooncake-use-peermem"
    UPGRADE_NVSHMEM = "upgrade-nvshmem"
    UPGRADE_UCX = "upgrade-ucx"
    GIVE_CONTAINER_DEVICES = "give-container-devices"
    CLEAN_NCCL_SETTINGS = "clean-nccl-settings"
