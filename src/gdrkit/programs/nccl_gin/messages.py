"""Messages on GIN (NCCL's communication from GPU kernels, with DOCA GPUNetIO inside) and on MNNVL (NVLink
between hosts), and of NVIDIA's driver on both.

Read at the tags of NVIDIA/nccl from v2.20.3-1 to v2.30.7-1, those of open-gpu-kernel-modules from 515 to
595. DOCA prints with DOCA_GPUNETIO_LOG=4 or more.
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

ROWS = (
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
