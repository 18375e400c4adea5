"""Lines that show whether a program uses GPU memory directly, and what it uses otherwise.

They have no cause: nothing failed. Read at NVIDIA/nvshmem v3.4.5-0, NVIDIA/nccl v2.30.7-1, openucx/ucx
v1.22.0, ofiwg/libfabric v2.6.0, amzn/amzn-drivers efa_linux_3.1.0, ai-dynamo/nixl v1.4.0 and
linux-rdma/perftest 26.04.17, in the files that the rows name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from gdrkit.messages.message import Match, MessageMatcher, MessageTemplate

DMABUF, PEERMEM = "GPU memory is registered as a dma-buf", "GPU memory is registered by its address"
BY_TABLES = "the tables of UCX_PROTO_INFO show direct access at both ends"
_COMMON = "src/modules/transport/common/transport_ib_common.cpp"
_IBGDA = "src/modules/transport/ibgda/ibgda.cpp"
_PLUGIN = "src/plugin/gin.cc"
_MD = "src/uct/ib/base/ib_md.c"
_GDA = "src/uct/ib/mlx5/gdaki/gdaki.c"


def _shows(what: str) -> Callable[[Match], str]:
    return lambda match: what


_shown = functools.partial(MessageTemplate, open_end=True)

ROWS = (
    _shown("nvshmem", "mlx5dv_reg_dmabuf_mr handle {pointer:0x[0-9a-f]+} mr {mr:0x[0-9a-f]+}",
           make=_shows(f"{DMABUF}, over Data Direct"), source=_COMMON,
           sample="mlx5dv_reg_dmabuf_mr handle 0x7f54c8 mr 0x55d0c0"),
    _shown("nvshmem", "ibv_reg_dmabuf_mr handle {pointer:0x[0-9a-f]+} mr {mr:0x[0-9a-f]+}",
           make=_shows(DMABUF), source=_COMMON, sample="ibv_reg_dmabuf_mr handle 0x7f54c8 mr 0x55d0c0"),
    _shown("nvshmem", "ibv_reg_mr handle {pointer:0x[0-9a-f]+} mr {mr:0x[0-9a-f]+}",
           make=_shows("memory of the host, or of a GPU, is registered by its address"), source=_COMMON,
           sample="ibv_reg_mr handle 0x7f54c8 mr 0x55d0c0"),
    _shown("nvshmem", "directNIC features supported and enabled in device {device:\\S+}",
           make=_shows("the NIC is used over Data Direct"), source=_COMMON),
    _shown("nvshmem", "NIC handler will be GPU", source=_IBGDA,
           make=_shows("IBGDA: the GPU itself rings the NIC's doorbell")),
    _shown("nvshmem", "NIC buffer will be on GPU memory", make=_shows("IBGDA: queues are in GPU memory"),
           source=_IBGDA),
    _shown("nccl", "GIN/Plugin: Assigned plugin {name:\\S+} type 3",
           make=_shows("GIN: GPU kernels start transfers themselves (GDAKI)"), source=_PLUGIN,
           sample="GIN/Plugin: Assigned plugin GIN_IB_GDAKI type 3 to comm"),
    _shown("nccl", "GIN/Plugin: Assigned plugin {name:\\S+} type 2",
           make=_shows("GIN: a thread of the CPU starts transfers (proxy)"), source=_PLUGIN,
           sample="GIN/Plugin: Assigned plugin GIN_IB_PROXY type 2 to comm"),
    _shown("nccl", "Assigned GIN plugin GIN_IB_GDAKI to comm",
           make=_shows("GIN: GPU kernels start transfers themselves (GDAKI)"), source=_PLUGIN,
           versions="2.28.7 to 2.30.4"),
    _shown("nccl", "Assigned GIN plugin GIN_IB_PROXY to comm",
           make=_shows("GIN: a thread of the CPU starts transfers (proxy)"), source=_PLUGIN,
           versions="2.28.7 to 2.30.4"),
    _shown("nccl", "GDRCOPY enabled {how:using NCCL internal|library [\\d.]+ using} DMA-BUF mmap backend",
           make=_shows("the GPU's memory can be exported as a dma-buf, which GDRCopy maps"),
           source="src/misc/gdrwrap.h", versions="2.31.2 and later",
           sample="GDRCOPY enabled library 2.6 using DMA-BUF mmap backend"),
    _shown("nccl", "GIN/GDAKI: device {device:\\S+} preHopper={old:[01]} dataDirectNic=1",
           make=_shows("GIN uses the NIC over Data Direct"), versions="2.32.3 and later",
           source="src/transport/net_ib/gdaki/gin_host_gdaki.cc",
           sample="GIN/GDAKI: device mlx5_0 preHopper=0 dataDirectNic=1 mcst=1"),
    _shown("ucx", "{device:[\\w.-]+}: dmabuf is supported", make=_shows("the NIC's side accepts dma-bufs"),
           source=_MD),
    _shown("ucx", "dmabuf is supported on cuda device {gpu:\\d+}",
           source="src/uct/cuda/cuda_copy/cuda_copy_md.c",
           make=_shows("the GPU's memory can be exported as a dma-buf")),
    _shown("ucx", "{device:[\\w.-]+}: using dmabuf for gda transport", source=_GDA,
           make=_shows("GDA: queues are dma-bufs")),
    _shown("ucx", "{device:[\\w.-]+}: using peermem for gda transport",
           make=_shows("GDA: queues are registered by their address"), source=_GDA),
    _shown("ucx", "multi-node NVLINK support is enabled", make=_shows("NVLink between hosts is used"),
           source="src/uct/cuda/cuda_ipc/cuda_ipc_md.c"),
    _shown("libfabric", "Registering dmabuf MR: fd={number:\\d+}",
           make=_shows("libfabric registers a dma-buf"), source="prov/efa/src/efa_mr.c",
           versions="2.5 and later"),
    _shown("efa", "efa: Acquired peer memory using P2P", make=_shows(PEERMEM),
           source="kernel/linux/efa/src/efa_p2p.c, once after each load"),
    _shown("nixl", "Using provider with FI_HMEM support for rail",
           make=_shows("libfabric accepts GPU memory"), source="src/utils/libfabric/libfabric_rail.cpp"),
    _shown("nixl", "CUDA memory registration - iface: FI_HMEM_CUDA",
           make=_shows("libfabric gets GPU memory to register"),
           source="src/utils/libfabric/libfabric_rail.cpp"),
    _shown("mooncake", "Using RDMA transport (RoCE/iWARP)", make=_shows("the transport is RDMA"),
           source="kvcache-ai/Mooncake mooncake-transfer-engine/src/transfer_engine_impl.cpp"),
    _shown("aws-ofi-nccl", "Plugin selected platform: {name:\\S+}", make=_shows("this plugin is in use"),
           source="aws/aws-ofi-nccl src/nccl_ofi_net.cpp", sample="NET/OFI Plugin selected platform: AWS"),
    _shown("nvidia-fs", "Mellanox PeerDirect Supported: True",
           make=_shows("nvidia-fs sees nv_peer_mem or nvidia_peermem"), source="src/nvfs-stat.c"),
    _shown("nixl", "NIXL UCX backend bound to UCX {value:\\S+}", make=_shows("this UCX is in use"),
           source="src/plugins/ucx/ucx_plugin.cpp", versions="1.3.1 and later"),
    _shown("tcpx", "Registered dmabuf region {pointer:0x[0-9a-f]+}", make=_shows(DMABUF),
           source="google/nccl-plugin-gpudirecttcpx src/gpu/tx_pool.cu"),
    _shown("gdrcopy", "Using gdrdrv backend", make=_shows("GDRCopy is in use, through its module"),
           source="NVIDIA/gdrcopy src/gdrapi.c", versions="2.6 and later"),
    _shown("perftest", "using DMA-BUF for GPU buffer address at {pointer:0x[0-9a-f]+}",
           make=_shows("the test uses GPU memory as a dma-buf"), source="src/cuda_memory.c"),
)  # fmt: skip

PROGRAMS = frozenset(row.program for row in ROWS)


def proves_direct(shown: str) -> bool:
    """Whether what a line shows is that a NIC has GPU memory: it was registered, not only asked for, or UCX
    chose it."""
    return shown.startswith((DMABUF, PEERMEM, BY_TABLES))


@functools.cache
def matcher() -> MessageMatcher:
    """The matcher for these lines alone."""
    return MessageMatcher(ROWS)
