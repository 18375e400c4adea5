"""Messages of Mooncake's transfer engine, which SGLang and vLLM use, of MSCCL++ and of UCCL.

Mooncake's lines are glog's, on standard error. Read at the tags of kvcache-ai/Mooncake from v0.2.0 to
v0.3.12.post1 and its newest commit of 2026-08-22; at those of microsoft/mscclpp from v0.1.0 to v0.10.0;
uccl-project/uccl at its newest commit of 2026-08-19 (da914a20).
"""

from __future__ import annotations

import functools

from gdrkit.messages.errors import EFAULT, EINVAL, ENOMEM
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import NO_GPU, causes_of

_line = functools.partial(MessageTemplate, "mooncake", open_end=True)
_ENGINE = "kvcache-ai/Mooncake mooncake-transfer-engine/src"
_CONTEXT = f"{_ENGINE}/transport/rdma_transport/rdma_context.cpp"
_NVLINK = f"{_ENGINE}/transport/nvlink_transport/nvlink_transport.cpp"
_EFA = f"{_ENGINE}/transport/efa_transport/efa_context.cpp"
_CHOICE = f"{_ENGINE}/transfer_engine_impl.cpp"
_NO_DEVICE = ("no-rdma-device", "rdma-device-not-in-container", "verbs-library-missing", "port-down")
_NO_EXPORT = ("driver-proprietary", *NO_GPU, "gpu-integrated")
_REFUSED = (
    "peermem-not-loaded", "mooncake-forces-peermem", "memory-not-registrable", "torch-expandable-segments",
    "gpu-integrated", *NO_GPU,
)  # fmt: skip
_ADDRESS = r"{pointer:0x[0-9a-f]+}"

_mscclpp = functools.partial(MessageTemplate, "mscclpp", open_end=True)
_IB = "microsoft/mscclpp src/core/ib.cc"
_uccl = functools.partial(MessageTemplate, "uccl", open_end=True)
_EP = "uccl-project/uccl ep/src/rdma.cpp"

ROWS = (
    _line(
        rf"Failed to register memory {_ADDRESS}: Bad address [{EFAULT}]",
        _REFUSED,
        source=f"{_CONTEXT}: the errno of ibv_reg_mr, or of ibv_reg_dmabuf_mr where it was chosen",
        sample="E0522 rdma_context.cpp:198] Failed to register memory 0x7f0000000000: Bad address [14]",
    ),
    _line(
        rf"Failed to register memory {_ADDRESS}: Cannot allocate memory [{ENOMEM}]",
        (*causes_of("ibv_reg_mr", ENOMEM), "mkeys-exhausted"),
        source=_CONTEXT,
        sample="Failed to register memory 0x7f0000000000: Cannot allocate memory [12]",
    ),
    _line(
        rf"Failed to register memory {_ADDRESS}: Invalid argument [{EINVAL}]",
        ("memory-not-registrable", "dmabuf-mr-refused", "mkeys-exhausted"),
        source=_CONTEXT,
        sample="Failed to register memory 0x7f0000000000: Invalid argument [22]",
    ),
    _line(
        r"Failed to retrieve dmabuf for {number:\d+}",
        (*_NO_EXPORT, "memory-not-registrable", "torch-expandable-segments"),
        source=f"{_CONTEXT}: with WITH_NVIDIA_PEERMEM=0",
        versions="0.3.6 and later",
    ),
    _line(
        "RdmaTransport: Failed to register memory: addr ", ("memory-not-registrable", "peermem-not-loaded"),
        source=f"{_ENGINE}/transport/rdma_transport/rdma_transport.cpp; the line before it has the error",
        decides=False, follows="mooncake",
    ),
    _line(
        r"Failed to call cuMemGetAddressRange for {number:(?:0x)?[0-9a-f]+}",
        ("memory-not-registrable",),
        source=f"{_CONTEXT}: no CUDA context, or an address of another allocator",
        versions="0.3.11 and later",
        decides=False,
    ),
    _line(
        "DMA BUF supported required for GPU RDMA without nvidia-peermem",
        (*_NO_EXPORT, "mooncake-forces-dmabuf"),
        source=f"{_CONTEXT}: with WITH_NVIDIA_PEERMEM=0; ` on GPU device N mapped to RNIC mlx5_0` follows",
        versions="0.3.11 and later",
    ),
    _line(
        "Failed to modify QP to RTR, check mtu, gid", ("rail-unreachable", "gid-index-wrong"),
        source=f"{_ENGINE}/transport/rdma_transport/rdma_endpoint.cpp", decides=False,
    ),
    _line(
        r"TcpTransport: listen on port {port:\d+}", ("rdma-transport-not-chosen",),
        source=f"{_ENGINE}/transport/tcp_transport", decides=False,
        sample="TcpTransport: listen on port 15535",
    ),
    _line(
        "RdmaTransport: No available RNIC", _NO_DEVICE, source=f"{_ENGINE}/transport/rdma_transport",
        follows="mooncake",
    ),
    _line(
        "No RDMA devices found, check your device installation", _NO_DEVICE,
        source=f"{_ENGINE}/topology.cpp", versions="0.3.0 and later", goes_on=True,
    ),
    _line(
        r"Failed to open device {device:\S+} on port {number:\d+} with GID",
        ("port-down", "gid-index-wrong", "rdma-device-not-in-container"),
        source=f"{_CONTEXT}, construct(): after the line that says which step failed",
        follows="mooncake",
    ),
    _line(
        r"Device {what:\S+ path \S+ does not exist|/dev/infiniband\S+ is not accessible for read/write}",
        ("rdma-device-not-in-container",), source=f"{_ENGINE}/topology.cpp", decides=False,
        sample="Device mlx5_0 path /dev/infiniband/uverbs0 does not exist",
    ),
    _line(
        "has no active ports, skipping", ("port-down",), source=f"{_ENGINE}/topology.cpp", decides=False,
    ),
    _line(
        "No HCA detected and neither", _NO_DEVICE, source=_CHOICE, decides=False,
    ),
    _line(
        "GID is NULL, please check your GID index by specifying MC_GID_INDEX", ("gid-index-wrong",),
        source=_CONTEXT,
    ),
    _line(
        "Using TCP transport (no HCA detected)", ("rdma-transport-not-chosen", *_NO_DEVICE), source=_CHOICE
    ),
    _line(
        "MC_FORCE_TCP is set, using TCP transport only", ("rdma-transport-not-chosen",), source=_CHOICE,
        versions="0.3.12 and later",
    ),
    _line(
        "transport was requested but is not compiled in, falling back to RDMA/TCP",
        ("rdma-transport-not-chosen",),
        source=_CHOICE,
    ),
    _line(
        "Using cross-node NVLink transport (MC_FORCE_MNNVL or no HCA detected)",
        ("no-rdma-device", "rdma-device-not-in-container"),
        source=_CHOICE,
        versions="0.3.9 to 0.3.12.post1",
        decides=False,
    ),
    _line(
        r"Using {what:[\w-]+(?: NVLink)?} transport (forced or no HCA detected)",
        ("no-rdma-device", "rdma-device-not-in-container"),
        source=f"{_CHOICE}, after 0.3.12.post1",
        decides=False,
        sample="Using MNNVL transport (forced or no HCA detected)",
    ),
    _line(
        "Failed to install RDMA transport", _NO_DEVICE, source=f"{_CHOICE}; lines above have the reason",
        follows="mooncake",
    ),
    _line(
        "NvlinkTransport: cuMem{call:Create|ExportToShareableHandle} failed: ",
        ("mnnvl-imex-channel-missing", "mnnvl-fabric-incomplete"),
        source=_NVLINK,
        versions="0.3.3 and later",
        sample="NvlinkTransport: cuMemCreate failed: 800",
    ),
    _line(
        "NvlinkTransport: cuMemImportFromShareableHandle failed: ",
        ("mnnvl-imex-not-ready", "mnnvl-clique-differs"),
        source=_NVLINK,
        versions="0.3.3 and later",
    ),
    _line(
        "MpcommTransport: nvidia_peermem not detected, GPU memory support is disabled",
        ("peermem-not-loaded",),
        source=f"{_ENGINE[:-4]}/tent: it reads /proc/modules alone",
    ),
    _line(
        "MpcommTransport: GPU memory support disabled by transports/mpcomm/disable_gpu_direct_rdma",
        ("gdr-disabled-by-env",),
        source=f"{_ENGINE[:-4]}/tent",
    ),
    _line(
        rf"Failed to register GPU memory from {_ADDRESS}", _REFUSED, source=f"{_ENGINE[:-4]}/tent",
        versions="0.3.11 and later", sample="Failed to register GPU memory from 0x7f0000000000",
    ),
    _line(
        "Unable to register buffer of local memory segment", (*_REFUSED, "memlock-limit"),
        source=f"{_ENGINE[:-4]}/tent: the line above it has the errno",
        follows="mooncake",
    ),
    _line(
        "fi_mr_regattr failed for GPU memory",
        ("efa-p2p-unavailable", "memory-not-registrable", "libfabric-too-old"),
        source=_EFA,
        versions="0.3.10.post2 and later",
    ),
    _line(
        "GPU memory registration or a GPU-aware copy may fail with a bare",
        ("ofi-lacks-hmem", "libfabric-too-old"),
        source=_EFA,
    ),
    MessageTemplate(
        "sglang",
        "Mooncake memory registration failed.",
        (*_REFUSED, "memlock-limit"),
        source="sglang disaggregation/mooncake: the line of rdma_context.cpp before it has the errno",
        follows="mooncake",
        open_end=True,
    ),
    _mscclpp(
        "nvidia_peermem kernel module is not loaded",
        ("peermem-not-loaded", "driver-proprietary"),
        source=f"{_IB}: printed only without dma-buf; it reads /proc/modules alone",
        versions="0.4.3 and later",
    ),
    _mscclpp(
        "DMABUF is required but is not supported in this platform",
        ("driver-proprietary", "verbs-library-old", "verbs-lacks-dmabuf", *NO_GPU),
        source=f"{_IB}: for memory from cuMemCreate",
        versions="0.9.0 and later",
    ),
    _mscclpp(
        "libibverbs does not support ibv_reg_dmabuf_mr in this platform",
        ("verbs-library-old", "verbs-lacks-dmabuf"),
        source="microsoft/mscclpp src/core/ibverbs_wrapper.cc",
        versions="0.9.0 and later",
    ),
    _mscclpp(
        "Failed to open libibverbs: ", ("verbs-library-missing",), versions="0.9.0 and later",
        source="microsoft/mscclpp src/core/ibverbs_wrapper.cc",
    ),
    _mscclpp(
        "IB host-no-atomic mode on CUDA requires GDRCopy",
        ("gdrcopy-not-loaded", "gdrcopy-version-mismatch"),
        source="microsoft/mscclpp src/core/connection.cc",
        versions="0.10.0",
    ),
    _mscclpp(
        "GDRCopy kernel driver is not loaded (/dev/gdrdrv not found)",
        ("gdrcopy-not-loaded",),
        source="microsoft/mscclpp src/core/gdr.cc",
        versions="0.10.0",
    ),
    _mscclpp(
        "cross-node CudaIpc requires NVIDIA MNNVL hardware and a running IMEX service",
        ("mnnvl-imex-not-ready", "mnnvl-imex-channel-missing", "mnnvl-fabric-incomplete"),
        source="microsoft/mscclpp src/core/gpu_ipc_mem.cc: other kinds of handles are tried next",
        versions="0.10.0",
    ),
    _mscclpp(
        "Check that the IMEX daemon is running on both nodes and that the GPUs share an NVLink fabric",
        ("mnnvl-imex-not-ready", "mnnvl-clique-differs"),
        source="microsoft/mscclpp src/core/gpu_ipc_mem.cc",
        versions="0.10.0",
    ),
    _uccl(
        r"rdma_io.cc:{number:\d+}] {:.{0,12}}Unable to get device list",
        ("no-rdma-device", "rdma-device-not-in-container"),
        source="uccl-project/uccl collective/rdma/rdma_io.cc",
        decides=False, leads=True,
        sample="E1016 23:07:35.1 18 rdma_io.cc:68] [Error] Unable to get device list",
    ),
    _uccl(
        "Lack of GPU Direct RDMA support.",
        ("peermem-not-loaded", "kernel-lacks-dmabuf"),
        source="uccl-project/uccl collective/rdma/nccl_plugin.cc: neither a peer-memory client nor dma-buf",
        decides=False,
    ),
    _uccl(
        "RDMA buffer MR registration failed: Bad address", _REFUSED,
        source=f"{_EP}: the errno of ibv_reg_mr",
    ),
    _uccl(
        "RDMA buffer MR registration failed: Cannot allocate memory", causes_of("ibv_reg_mr", ENOMEM),
        source=_EP,
    ),
    _uccl(
        r"gpuMemGetHandleForAddressRange failed (error={number:\d+})", _NO_EXPORT,
        source=f"{_EP}; p2p/rdma/rdma_context.h: no dma-buf of GPU memory, so it needs nvidia_peermem",
        decides=False,
    ),
)  # fmt: skip
