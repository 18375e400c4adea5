"""Messages on GIN (NCCL's communication from GPU kernels, with DOCA GPUNetIO inside) and on MNNVL (NVLink
between hosts), and of NVIDIA's driver on both.

Read at the tags of NVIDIA/nccl from v2.20.3-1 to v2.30.7-1, those of open-gpu-kernel-modules from 515 to
595; lines of 2.31.2 and 2.32.3 in single files and in the strings of the library. DOCA prints with
DOCA_GPUNETIO_LOG=4 or more.
"""

from __future__ import annotations

import functools

from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import NO_DMABUF

_gin = functools.partial(MessageTemplate, "nccl", open_end=True)
_NO_MEMORY = ("peermem-not-loaded", "driver-proprietary", "gpu-consumer", "gpu-unsupported", *NO_DMABUF)
_DOCA = "NVIDIA/nccl src/transport/net_ib/gdaki/doca-gpunetio/src"
_GDAKI = "NVIDIA/nccl src/transport/net_ib/gdaki/gin_host_gdaki.cc"
_PROXY = ("ibgda-cpu-assisted", "ibgda-peer-mapping-denied")

_RMA = "NVIDIA/nccl src/transport/net_socket, of 2.32.3"
_GDRWRAP = "NVIDIA/nccl src/misc/gdrwrap.cc, of 2.31.2"

ROWS = (
    _gin(
        "RMA/Socket : rma_socket requires GDRCopy",
        ("gdrcopy-not-loaded",),
        source=f"{_RMA}; or NCCL's own mapping of dma-bufs, with CUDA driver 13.3 and newer",
        versions="2.32.3 and later",
    ),
    _gin(
        "NCCL_GDRCOPY_USE_INTERNAL_DMABUF=1 but NCCL internal DMA-BUF mmap backend could not initialize",
        ("gdrcopy-not-loaded", "driver-mismatch", "driver-proprietary"),
        source="NVIDIA/nccl src/init.cc, of 2.31.2: the start of the communicator fails",
        versions="2.31.2 and later",
    ),
    _gin(
        "NCCL internal DMA-BUF mmap backend unavailable",
        ("gdrcopy-not-loaded",),
        source=f"{_GDRWRAP}: no GDRCopy of either kind; GPUDirect RDMA does not need it",
        versions="2.31.2 and later",
        decides=False,
        goes_on=True,
    ),
    _gin(
        "NCCL internal DMA-BUF mmap backend disabled: CUDA device {gpu:[0-9]+} does not support DMA-BUF",
        ("driver-proprietary", "gpu-unsupported", "gpu-consumer", "gpu-integrated"),
        source=f"{_GDRWRAP}: CUDA attribute 124 is 0",
        versions="2.31.2 and later",
        goes_on=True,
    ),
    _gin(
        "mmap DMA-BUF fd {number:[0-9]+} size {size:[0-9]+} offset 0 failed:",
        ("gdrcopy-not-loaded",),
        source=f"{_GDRWRAP}: the kernel or the driver does not map the dma-buf",
        versions="2.31.2 and later",
        decides=False,
    ),
    _gin(
        "GIN/GDAKI: mlx5dv_get_data_direct_sysfs_path unavailable for device {device}, assuming no",
        ("data-direct-missing", "verbs-library-old"),
        source=f"{_GDAKI}, of 2.32.3: libmlx5 is too old for the query",
        versions="2.32.3 and later",
        decides=False,
        goes_on=True,
    ),
    _gin(
        "marking device with fatal error after GID-change event handler failed",
        ("gid-index-wrong",),
        source="NVIDIA/nccl src/transport/net_ib, of 2.31.2",
        versions="2.31.2 and later",
        decides=False,
    ),
    _gin(
        "NET/IB: rail policy was set to CX9 but the number of CX9 found (={number:[0-9]+}) is not a modulo",
        ("nic-missing", "hca-not-selected"),
        source="NVIDIA/nccl src/transport/net_ib/init.cc, of 2.32.3 on Arm: no rails are assigned",
        versions="2.32.3 and later",
        decides=False,
        goes_on=True,
    ),
    _gin(
        "No rails found for GPU/{gpu:[0-9]+}",
        ("hca-not-selected", "nic-missing"),
        source="NVIDIA/nccl src/graph, of 2.32.3",
        versions="2.32.3 and later",
        decides=False,
    ),
    _gin(
        "Unable to use GIN: Peermem is not supported, nor DMA-BUF",
        _NO_MEMORY,
        source="NVIDIA/nccl src/transport/net_ib/gin.cc",
        versions="2.29.7 and later",
    ),
    _gin(
        r"Unable to use GIN: Peermem is not supported, and device {gpu:\d+} does not support DMA-BUF",
        ("driver-proprietary", "peermem-not-loaded", "gpu-consumer", "gpu-unsupported"),
        source="NVIDIA/nccl src/transport/net_ib/gin.cc",
        versions="2.29.7 and later",
    ),
    _gin(
        r"Failed to register memory with DMA-BUF, error={number:\d+}",
        NO_DMABUF,
        source=f"{_GDAKI}; then it tries ibv_reg_mr",
        versions="2.28.7 and later",
    ),
    _gin(
        r"Failed to register memory with DMA-BUF and data direct, error={number:\d+}",
        ("data-direct-missing",),
        source=f"{_GDAKI}; then it tries a plain dma-buf",
        versions="2.28.7 and later",
        decides=False,
    ),
    _gin(
        "{what:GIN is disabled[.]|GIN not supported[.]|No GIN-capable devices found[.]|GIN Symmetric"
        " register failed}",
        ("gin-unavailable", "gin-nics-fused", "peermem-not-loaded"),
        source="NVIDIA/nccl src/gin/gin_host.cc",
        versions="2.28.7 and later",
        decides=False,
        leads=True,
        sample="NCCL WARN No GIN-capable devices found.",
    ),
    _gin(
        "addresses that span multiple physical segments requires DMABUF support with GIN",
        ("torch-expandable-segments", "driver-proprietary", *NO_DMABUF),
        source="NVIDIA/nccl src/gin/gin_host.cc",
        decides=False,
    ),
    _gin(
        r"DOCA failure {number:\d+}",
        ("ibgda-peer-mapping-denied", "nic-buffers-not-mappable", "gdaki-kernel-too-old"),
        source=_GDAKI,
        versions="2.30.3 and later",
    ),
    _gin(
        "GPU doesn't support dmabuf, fallback to legacy nvidia-peermem mode",
        ("driver-proprietary", "gpu-consumer", "gpu-unsupported"),
        source=f"{_DOCA}/doca_gpunetio_high_level.cpp",
        versions="2.28.7 and later",
    ),
    _gin(
        "Failed to create gpu umem with dmabuf",
        ("gdaki-kernel-too-old", "dmabuf-mr-refused"),
        source=f"{_DOCA}/doca_gpunetio_high_level.cpp",
        versions="2.28.7 and later",
    ),
    _gin(
        "Failed to create gpu umem with nvidia-peermem mode",
        ("peermem-not-loaded", "gdaki-kernel-too-old", "nic-buffers-not-mappable"),
        source=f"{_DOCA}/doca_gpunetio_high_level.cpp",
        versions="2.28.7 and later",
    ),
    _gin(
        "GDRCopy not enabled, can't allocate memory type DOCA_GPU_MEM_TYPE_GPU_CPU",
        ("gdrcopy-not-loaded",),
        source=f"{_DOCA}/doca_gpunetio.cpp",
        versions="2.28.7 and later",
        decides=False,
    ),
    _gin(
        "Enabling CPU proxy mode", _PROXY, source=f"{_DOCA}/doca_gpunetio.cpp", versions="2.28.7 and later"
    ),
    _gin(
        "Symmetric memory is not supported. cuMemEnable 0",
        ("mnnvl-cumem-off",),
        source="NVIDIA/nccl src/init.cc",
        versions="2.30.7 and perhaps others",
    ),
    _gin(
        "Symmetric memory is not supported. cuMemEnable 1, globalGinSupport 0",
        ("gin-unavailable",),
        source="NVIDIA/nccl src/init.cc",
        versions="2.30.7 and perhaps others",
    ),
    _gin(
        r"User requested GIN but not all ranks in the communicator support GIN",
        ("gin-unavailable", "versions-differ-between-ranks"),
        source="NVIDIA/nccl src/dev_runtime.cc",
        versions="2.29.7 and later",
    ),
    _gin(
        "communicator supports only NCCL_GIN_CONNECTION_RAIL",
        ("gin-nics-fused", "gin-unavailable"),
        source="NVIDIA/nccl src/dev_runtime.cc",
        versions="2.29.7 and later",
    ),
    _gin(
        "GIN/Plugin: Failed to initialize any GIN plugin",
        ("gin-unavailable", "peermem-not-loaded", "no-rdma-device"),
        source="NVIDIA/nccl src/plugin/gin.cc",
        versions="2.30.7 and later",
    ),
    _gin(
        r"Compute Capability ({number:\d+}) is not sufficient to enable GIN",
        ("gin-unavailable",),
        source="NVIDIA/nccl src/plugin/gin.cc",
        versions="2.30.3 and later",
    ),
    _gin(
        "The application was compiled with too old version of NCCL",
        ("gin-library-mismatch",),
        source="NVIDIA/nccl src/devcomm",
        versions="2.29.7 and later",
    ),
    _gin(
        "Tried merging multiple devices together and failed",
        ("gin-nics-fused",),
        source="NVIDIA/nccl src/graph/topo.cc",
        versions="2.26.2 and later",
        decides=False,
    ),
    MessageTemplate(
        "nvidia-imex",
        "No matching network interface found for any IP addresses in the node configuration file",
        ("mnnvl-imex-not-ready",),
        source="NVIDIA IMEX 570, /var/log/nvidia-imex.log",
        open_end=True,
    ),
    _gin(
        "this error indicates that the IMEX (NVLink fabric) service is not running",
        ("mnnvl-imex-not-ready",),
        source="NVIDIA/nccl src/include/cudawrap.h",
        versions="2.31.2 and later",
        decides=False,
    ),
    _gin(
        "Failed to get DMA-BUF handle for address range with type PCIE",
        ("data-direct-missing", "driver-mismatch"),
        source=_GDAKI,
        decides=False,
        goes_on=True,
    ),
    MessageTemplate(
        "nvidia",
        "permission denied, allowPeermapping={:0}",
        ("ibgda-peer-mapping-denied",),
        source="open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osmemdesc.c",
        open_end=True,
        sample="NVRM: osCreateOsDescriptorFromIoMemory(): permission denied, allowPeermapping=0",
    ),
    MessageTemplate(
        "nixl",
        "Failed to create gpu umem{:(?! with )}",
        ("peermem-not-loaded", "gdaki-kernel-too-old", "nic-buffers-not-mappable"),
        source="ai-dynamo/nixl src/plugins/gpunetio/verbs/verbs.cpp, of 1.4.0; GIN has longer lines",
        decides=False,
        sample="Failed to create gpu umem",
        open_end=True,
    ),
)
