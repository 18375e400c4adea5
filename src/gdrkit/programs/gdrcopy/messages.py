"""Messages of GDRCopy, of GPUDirect Storage, and of TCP into GPU memory.

Read at the tags of NVIDIA/gdrcopy from v1.3 to v2.6, NVIDIA/gds-nvidia-fs from v2.3.1 to v2.28.4,
google/nccl-plugin-gpudirecttcpx of 2024-07-22, and Linux net/core/devmem.c. libgdrapi prints with
GDRCOPY_ENABLE_LOGGING=1 GDRCOPY_LOG_LEVEL=1. libcufile is closed: its texts are those of public threads.
"""

from __future__ import annotations

import functools

from gdrkit.messages.message import MessageTemplate

_gdr = functools.partial(MessageTemplate, "gdrcopy", open_end=True)
_API = "NVIDIA/gdrcopy src/gdrapi.c"
_DRV = "NVIDIA/gdrcopy src/gdrdrv/gdrdrv.c"
_fs = functools.partial(MessageTemplate, "nvidia-fs", open_end=True)
_CORE = "NVIDIA/gds-nvidia-fs src/nvfs-core.c"
_cufile = functools.partial(MessageTemplate, "cufile", open_end=True, decides=False)
_LOG = "cufile.log, as in gds-nvidia-fs issues; the library is closed"
_tcpx = functools.partial(MessageTemplate, "tcpx", open_end=True)
_TCPX = "google/nccl-plugin-gpudirecttcpx src"
_devmem = functools.partial(MessageTemplate, "linux-devmem", open_end=True)

ROWS = (
    _gdr("error opening driver (errno=", ("gdrcopy-not-loaded",), source=f"{_API}, gdr_open()"),
    _gdr(
        "gdr_open error: Is gdrdrv driver installed and loaded", ("gdrcopy-not-loaded",), decides=False,
        source="NVIDIA/gdrcopy tests, of every version",
    ),
    _gdr(
        "unable to open GDR driver, is gdrdrv.ko loaded", ("gdrcopy-not-loaded",), decides=False,
        source="openucx/ucx and MVAPICH2, which call gdr_open()",
    ),
    _gdr(
        "loading gdrdrv version {value:\\S+} built for proprietary NVIDIA driver",
        ("gdrcopy-built-for-proprietary",), decides=False, goes_on=True,
        source=f"{_DRV}, gdrdrv_init(), 2.4 and later: right with the proprietary driver",
        sample="gdrdrv:gdrdrv_init:loading gdrdrv version 2.5 built for proprietary NVIDIA driver",
    ),
    _gdr(
        "The minimum required gdrdrv driver version is", ("gdrcopy-version-mismatch",),
        source=f"{_API}, gdr_open()",
    ),
    _gdr(
        "gdrdrv driver requires libgdrapi version", ("gdrcopy-version-mismatch",),
        source=f"{_API}, gdr_open()",
    ),
    _gdr(
        "Error getting the gdrdrv driver version with ioctl error",
        ("gdrcopy-version-mismatch", "device-file-stale"), source=f"{_API}, gdr_open()", leads=True,
    ),
    _gdr(
        "gdrcopy requires gdrdrv or CUDA driver with dmabuf mmap support", ("gdrcopy-not-loaded",),
        source=_API, versions="2.6",
    ),
    _gdr(
        "CUDA 13.3 or newer required for dmabuf mmap backend", ("gdrcopy-not-loaded", "driver-mismatch"),
        source="NVIDIA/gdrcopy src/cuda_wrapper.c", versions="2.6",
    ),
    _gdr(
        "gdrdrv is too old and does not support the requested feature", ("gdrcopy-version-mismatch",),
        source=_API, versions="2.5 and later",
    ),
    _gdr(
        "No address space left for BAR1 mapping", ("bar1-exhausted", "bar1-small"),
        source=f"{_DRV}, __gdrdrv_pin_buffer()",
    ),
    _gdr(
        "CC is not fully functional in gdrdrv with the proprietary flavor", ("gpu-confidential",),
        source=_DRV, versions="2.4 and later", decides=False,
    ),
    _fs(
        r"Error ret {number:-\d+} invoking nvidia_p2p_get_pages_persistent",
        ("memory-not-registrable", "bar1-exhausted", "driver-proprietary"),
        source=_CORE,
        versions="2.22.3 and later",
        sample="nvidia-fs:nvfs_pin_gpu_pages:1336 Error ret -12 invoking nvidia_p2p_get_pages_persistent",
    ),
    _fs(
        "Incompatible page table version 0x", ("p2p-page-table-version",), source=_CORE,
        sample="nvidia-fs:nvfs_pin_gpu_pages:1383 Incompatible page table version 0x00020000",
    ),
    _fs(
        "Unable to obtain dma_mapping :", ("iommu-translating", "p2p-page-table-version"), source=_CORE,
        versions="2.19.6 and later",
    ),
    _fs(
        "nvfs modules probe failed with error :", ("nvidia-fs-symbols-missing", "module-symbol-missing"),
        source=_CORE,
    ),
    _fs(
        r"RDMA registration version {number:\d+} is not supported by this driver", ("driver-mismatch",),
        source="NVIDIA/gds-nvidia-fs src/nvfs-rdma.c", versions="2.14.12 and later", decides=False,
    ),
    _cufile(
        "NVMe Driver not registered with nvidia-fs", ("nvidia-fs-symbols-missing", "gds-compat-mode"),
        source=_LOG, leads=True,
    ),
    _cufile(
        r"nvidia-fs{:(?:\.ko)?(?: driver)?(?: is)?} not loaded", ("nvidia-fs-not-loaded",), source=_LOG,
        sample="cufio-drv:716 nvidia-fs.ko driver not loaded",
    ),
    _cufile(
        "NVFS driver initialization error", ("nvidia-fs-not-loaded", "gds-compat-mode"),
        source="cufile.h, CUFILEOP_STATUS of CU_FILE_NVFS_SETUP_ERROR", leads=True,
    ),
    _cufile(
        "{what:running in compatible mode|using cuFile posix read/write with compat mode}",
        ("gds-compat-mode", "nvidia-fs-not-loaded"),
        source=_LOG, decides=False, leads=True,
        sample="NOTICE  cufio-drv:720 running in compatible mode",
    ),
    _cufile("pci_p2pdma not supported errornum: 801", ("gds-p2pdma-off",), source=_LOG),
    _cufile("Config doesn't support PCIP2PDMA", ("gds-p2pdma-off",), source=_LOG),
    _cufile(
        "GPUDirect Storage not supported on current file", ("gds-compat-mode", "nvidia-fs-symbols-missing"),
        source=_LOG,
    ),
    _tcpx(
        "register failed against receive_datapath_manager", ("tcpx-rxdm-missing",),
        source=f"{_TCPX}/net_tcpx.cc",
    ),
    _tcpx(
        "failed against receive-datapath-manager: ", ("tcpx-rxdm-missing",), source=f"{_TCPX}/connect.cc",
        sample="update flow steering rule: local 10.0.0.1 <- remote 10.0.0.2, failed against "
        "receive-datapath-manager: timeout",
    ),
    _tcpx(
        "gpumem fd client connect failed", ("tcpx-rxdm-missing",), source=f"{_TCPX}/gpu/rx_pool.cu",
    ),
    _tcpx(
        "get_gpumem_dmabuf_pages_fd() failed", ("gcp-devices-missing", "kernel-lacks-dmabuf"),
        source=f"{_TCPX}/net_tcpx.cc",
    ),
    _tcpx(
        "p2pdma api won't work with only RegMr", ("dmabuf-disabled-by-env",), source=f"{_TCPX}/net_tcpx.cc",
        decides=False,
    ),
    _tcpx("ioctl gpumem dma_buf create", ("gcp-devices-missing",), source=f"{_TCPX}/gpu/tx_pool.cu"),
    _devmem(
        "Failed to bind dmabuf to device", ("dmabuf-no-p2p-importer", "iommu-translating"),
        source="Linux net/core/devmem.c", versions="6.12 and later",
    ),
    _devmem(
        "tcp-data-split is disabled", ("devmem-header-split-off",), source="Linux net/core/devmem.c",
        versions="6.12 and later",
    ),
    _devmem(
        "hds-thresh is not zero", ("devmem-header-split-off",), source="Linux net/core/devmem.c",
        versions="6.14 and later",
    ),
)  # fmt: skip
