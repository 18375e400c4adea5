"""Messages of NVIDIA's kernel modules and libraries, and of modules that use GPU memory."""

from __future__ import annotations

from gdrkit.messages.message import Meaning, MessageTemplate

_OPEN = "open-gpu-kernel-modules"  # read at tags from 515.43.04 to 595.45.04
_ATTACH = f"{_OPEN} kernel-open/nvidia/nv-dmabuf.c, nv_dma_buf_attach()"
_P2P = f"{_OPEN} src/nvidia/src/kernel/gpu/bus/p2p.c"
_NO_PEER_OBJECT = (
    "gpu-consumer", "gpu-integrated", "gpu-unsupported", "gpu-vgpu", "gpu-confidential", "gpu-mig",
)  # fmt: skip
"""Why nvidia_p2p_get_pages() returns EINVAL: the process has no NV50_THIRD_PARTY_P2P object."""

FORCE_PCIE = MessageTemplate(
    "nvidia",
    "topology not supported for mapping type FORCE_PCIE",
    ("iommu-groups-differ",),
    name="force-pcie",
    source=f"{_ATTACH}; nv_dma_buf_map() in 570 and 575, without `dma-buf attach failed`",
    versions="570.86.16 and later; not 565.57.01",
    open_end=True,
    sample="NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE",
)
SYMBOL_REFUSED = "failing symbol_get of non-GPLONLY symbol "
"""How the kernel begins to say so; the symbol follows."""
P2P_REFUSED = MessageTemplate(
    "kernel",
    rf"{SYMBOL_REFUSED}{{symbol:nvidia_p2p_\w+}}",
    ("driver-proprietary",),  # the open modules export these functions for GPL modules
    source="Linux 6.6 and later kernel/module/main.c, __symbol_get(), commit 9011e49d54dc, which"
    " distributions have in older kernels; aws/aws-parallelcluster issue 6014",
    open_end=True,
    sample="[  311.7] failing symbol_get of non-GPLONLY symbol nvidia_p2p_get_pages.",
)
NO_IMPORTER = MessageTemplate(
    "nvidia",
    "importer unable to handle MMIO without struct page",
    ("dmabuf-no-p2p-importer",),
    source=_ATTACH,
    versions="580.65.06 and later",
    open_end=True,
    sample="NVRM: dma-buf attach failed: importer unable to handle MMIO without struct page",
)
NO_SPACE = MessageTemplate(
    "nvidia",
    "no space for BAR1 mappings",
    ("bar1-exhausted",),
    source=f"{_P2P}, RmThirdPartyP2PBAR1GetPages()",
    open_end=True,
    sample="NVRM: no space for BAR1 mappings, length: 0x40000000",
)

ROWS = (
    MessageTemplate(
        "nvidia",
        "NVRM: dma-buf attach failed: PCI topology not supported for dma-buf",
        ("topology-refused",),
        source=_ATTACH,
        versions="580.65.06 and later",
        open_end=True,
    ),
    MessageTemplate(
        "nv-fabricmanager",
        r"fabric manager NVIDIA GPU driver interface version {version:[\d.]+} don't match with driver",
        ("nvswitch-fabric-down",),
        source="NVIDIA Fabric Manager, as its users report it: NVIDIA/gpu-operator issue 544",
        decides=False,
        open_end=True,
        sample="fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with driver version"
        " 550.90.07. Please update with matching NVIDIA driver package.",
    ),
    MessageTemplate(
        "nv-fabricmanager",
        "request to query NVSwitch device information from NVSwitch driver failed with error:"
        "WARNING Nothing to do",
        meaning=Meaning(
            "Fabric Manager ends because it finds no NVSwitch: a machine without them does not need it, and"
            " NVLink bridges between cards work without it",
            "Nothing has to be done there; `sudo systemctl disable nvidia-fabricmanager` keeps it from"
            " starting. On a board with NVSwitches, look why the driver does not find them: `lspci | grep -i"
            " nvswitch`, and dmesg",
        ),
        source="NVIDIA Fabric Manager, as its users report it: NVIDIA/gpu-operator issue 610",
        open_end=True,
        sample="request to query NVSwitch device information from NVSwitch driver failed with error:WARNING"
        " Nothing to do [NV_WARN_NOTHING_TO_DO]",
    ),
    FORCE_PCIE,
    P2P_REFUSED,
    NO_IMPORTER,
    MessageTemplate(
        "nvidia-peermem",
        "nv_dma_map -- {level:(?:ERROR )?}error -524 while calling nvidia_p2p_dma_map_pages()",
        ("topology-refused",),
        source=f"{_OPEN} kernel-open/nvidia-peermem/nvidia-peermem.c, nv_dma_map(), in all versions",
        versions="580.65.06 and later; before, it means something else",
        name="map-enotsupp",
        decides=False,
        open_end=True,
        sample="nvidia-peermem nv_dma_map:213 ERROR nv_dma_map -- error -524 while calling "
        "nvidia_p2p_dma_map_pages()",
    ),
    MessageTemplate(
        "nv_peer_mem",
        "error -22 while calling nvidia_p2p_get_pages() with NULL callback",
        ("legacy-nv-peer-mem",),
        source="Mellanox/nv_peer_memory nv_peer_mem.c, nv_mem_get_pages_nc(); the driver refuses it since "
        "525.105.17; nvidia-peermem has the same line",
        open_end=True,
        sample="nv_mem_get_pages -- error -22 while calling nvidia_p2p_get_pages() with NULL callback",
    ),
    NO_SPACE,
    MessageTemplate(
        "gdrdrv",
        r"incompatible page table version {version:0x0*20000\b}",
        ("p2p-page-table-version",),
        source="gdrcopy src/gdrdrv/gdrdrv.c, __gdrdrv_pin_buffer(); nv-p2p.h from 580",
        open_end=True,
        sample="gdrdrv:__gdrdrv_pin_buffer:incompatible page table version 0x00020000",
    ),
    MessageTemplate(
        "nvidia",
        "Failed to get a reference on dev_pagemap in CDMM",
        ("gpu-cdmm",),
        source=f"{_OPEN} kernel-open/nvidia/nv-dmabuf.c, nv_dma_buf_map_pages(); "
        "src/nvidia/arch/nvalloc/unix/src/osapi.c, RmP2PDmaMapPages()",
        versions="595.44.02 and later; not 590.48.01",
        open_end=True,
        sample="NVRM: Failed to get a reference on dev_pagemap in CDMM(driver) mode",
    ),
    MessageTemplate(
        "nvidia",
        "RDMA is not supported for localized memory",
        ("memory-not-registrable",),
        source=f"{_P2P}, RmThirdPartyP2PNVLinkGetPages(); src/nvidia/arch/nvalloc/unix/src/osapi.c, "
        "rm_dma_buf_map_mem_handle()",
        versions="590.44.01 and later; not 580.126.09",
        open_end=True,
        sample="NVRM: RDMA is not supported for localized memory over coherent mappings",
    ),
    MessageTemplate(
        "nvidia",
        "NVRM: API mismatch: ",
        ("driver-mismatch",),
        source=f"{_OPEN} src/nvidia/arch/nvalloc/unix/src/osapi.c, RmPerformVersionCheck()",
        open_end=True,
        sample="NVRM: API mismatch: the client has the version 580.95.05, but",
    ),
    MessageTemplate(
        "nvidia",
        "nvidia-nvswitch: Version mismatch, kernel version",
        ("driver-mismatch",),
        source=f"{_OPEN} kernel-open/nvidia/linux_nvswitch.c: the Fabric Manager is of another version",
        open_end=True,
        decides=False,  # so may another program that opens the switches be
        sample="nvidia-nvswitch: Version mismatch, kernel version 570.86.15 user version 570.124.06",
    ),
    MessageTemplate(
        "nvidia",
        r"NVRM: The NVIDIA probe routine was not called for {number:\d+} device(s)",
        ("driver-not-loaded", "gpu-passed-through"),
        source=f"{_OPEN} kernel-open/nvidia/nv.c, nv_module_init(): another driver has the device",
        leads=True,
        open_end=True,
        decides=False,
    ),
    MessageTemplate(
        "nvidia",
        "NVRM: No NVIDIA {what:GPU found|devices probed|PCI devices found}",
        ("driver-not-loaded", "gpu-passed-through"),
        source=f"{_OPEN} kernel-open/nvidia/nv.c, nv_module_init()",
        open_end=True,
        decides=False,
        sample="NVRM: No NVIDIA GPU found.",
    ),
    MessageTemplate(
        "nvidia-container-toolkit",
        "{:(?<!NVML: )[Dd]river}/library version mismatch",
        ("driver-mismatch",),
        source="nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH; NVIDIA/nvidia-container-toolkit issue 394 and"
        " NVIDIA/nvidia-docker issue 584, among others",
        open_end=True,
        decides=False,
        sample="nvidia-container-cli: initialization error: nvml error: driver/library version mismatch",
    ),
    MessageTemplate(
        "nvidia-smi",
        "Failed to initialize NVML: Driver/library version mismatch",
        ("driver-mismatch",),
        source="nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH; the program's own source is closed",
        open_end=True,
    ),
    MessageTemplate(
        "nvidia-smi",
        "No devices were found",
        ("gpu-refused-by-driver", "gpu-needs-reset", "gpu-passed-through", "gpu-excluded"),
        source="nvidia-smi(1): the driver answers, and NVML counts no GPU",
        decides=False,
        sample="No devices were found",
    ),
    MessageTemplate(
        "nvidia-smi",
        "couldn't communicate with the NVIDIA driver",
        ("driver-not-loaded", "driver-mismatch"),
        source="nvidia-smi(1); the program's own source is closed",
        decides=False,
        leads=True,
        open_end=True,
        sample="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ),
    MessageTemplate(
        "cufile",
        r"Inc-bar-usage failed: size {size:\d+} remaining bytes {left:\d+}",
        ("bar1-exhausted",),
        source="the log of libcufile, which is closed: a request does not fit into the rest of BAR1",
        decides=False,
        open_end=True,
        sample="ERROR 0:1072 Inc-bar-usage failed: size 1048576 remaining bytes 65536",
    ),
    MessageTemplate(
        "nvidia-fs",
        "Error ret -22 invoking nvidia_p2p_get_pages",
        _NO_PEER_OBJECT,
        source="gds-nvidia-fs src/nvfs-core.c, nvfs_pin_gpu_pages()",
        open_end=True,
        sample="nvidia-fs:nvfs_pin_gpu_pages:1310 Error ret -22 invoking nvidia_p2p_get_pages",
    ),
    MessageTemplate(
        "gdrdrv",
        "nvidia_p2p_get_pages({arguments}) failed [ret = -22]",
        _NO_PEER_OBJECT,
        source="gdrcopy src/gdrdrv/gdrdrv.c, __gdrdrv_pin_buffer()",
        open_end=True,
        sample="gdrdrv:nvidia_p2p_get_pages(va=7f0000000000 len=65536) failed [ret = -22]",
    ),
)
