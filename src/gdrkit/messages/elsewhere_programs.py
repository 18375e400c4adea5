"""Remarks of programs that want GPU memory on the network, about something else than that path."""

from __future__ import annotations

from gdrkit.messages.other_message import OtherMessage

_MOONCAKE = "kvcache-ai/Mooncake mooncake-transfer-engine/src/transport"

ROWS = (
    OtherMessage(
        "DOCA_GPUNETIO_DISABLE_GDRCOPY",
        r"DOCA_GPUNETIO_DISABLE_GDRCOPY is set, disabling GDRCopy",
        "This line is harmless: a variable keeps DOCA GPUNetIO from GDRCopy, so that it uses memory of the"
        " host where it would map the GPU's",
        "Unset DOCA_GPUNETIO_DISABLE_GDRCOPY if that was not meant",
        "NVIDIA/nccl src/transport/net_ib/gdaki/doca-gpunetio/src/doca_gpunetio_gdrcopy.cpp",
        kind="harmless",
    ),
    OtherMessage(
        "PeerDirect Supported",
        r"Mellanox PeerDirect Supported: False",
        "This line does not show that GPUDirect Storage cannot use RDMA: nvidia-fs looks for nv_peer_mem"
        " at /sys/kernel/mm/memory_peers alone, which newer kernels do not have",
        "Look at what `gdscheck -p` says of the file system",
        "NVIDIA/gds-nvidia-fs src/nvfs-stat.c",
        kind="harmless",
    ),
    OtherMessage(
        "explicitly mapped to RNIC",
        r"No GPU device is explicitly mapped to RNIC",
        "This line is harmless: in Mooncake's topology no GPU belongs to this NIC, so that it leaves out a"
        " test of dma-buf",
        "Nothing has to be done, unless a GPU is near that NIC: `nvidia-smi topo -m`",
        f"{_MOONCAKE}/rdma_transport/rdma_context.cpp",
        kind="harmless",
    ),
    OtherMessage(
        "not allocated by cuMemCreate",
        r"is not allocated by cuMemCreate",
        "Mooncake's NVLink transport got memory that other hosts cannot open: it was not allocated with"
        " cuMemCreate",
        "Allocate the buffers from Mooncake's own memory pool, or use its RDMA transport",
        f"{_MOONCAKE}/nvlink_transport/nvlink_transport.cpp",
    ),
    OtherMessage(
        "CUDA runtime library",
        r"Failed to load CUDA runtime library",
        "perftest finds no CUDA runtime, so that it cannot allocate GPU memory; the line does not concern"
        " RDMA",
        "Install the CUDA runtime (libcudart), or put its folder into LD_LIBRARY_PATH",
        "linux-rdma/perftest src/cuda_loader.c, of 26.04",
    ),
    OtherMessage(
        "GPU touch",
        r"GPU touch not available in kernel plugin",
        "perftest has no plugin by which a GPU kernel touches the buffer, so --gpu_touch cannot be used;"
        " the line does not concern RDMA",
        "Build perftest with its CUDA kernels, or leave --gpu_touch out",
        "linux-rdma/perftest src/cuda_memory.c, of 26.04",
    ),
    OtherMessage(
        "active primary CUDA context",
        r"no active primary CUDA context on any device",
        "UCX was started before the program had a CUDA context, so that it offers no GPU for transfers that"
        " GPU kernels start",
        "Use the GPU before UCX is started, or set UCX_IB_GDA_RETAIN_INACTIVE_CTX=yes",
        "openucx/ucx src/uct/ib/mlx5/gdaki/gdaki.c, of 1.22",
    ),
    OtherMessage(
        "libnccl-net",
        r"libnccl-net[\w.-]{0,40}\.so\S{0,8}: cannot open shared object file"
        r"|NET/Plugin ?: ?Could not find:? \S*libnccl-net",
        "NCCL found no network plugin, and uses its own code: harmless with InfiniBand and RoCE NICs, but on"
        " EFA it means TCP",
        "With InfiniBand or RoCE, nothing has to be done. On EFA, install aws-ofi-nccl in the image, and put"
        " its folder into LD_LIBRARY_PATH",
        "NCCL src/plugin/plugin_open.cc",
        kind="harmless",
    ),
)
