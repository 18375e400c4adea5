"""Messages of NVSHMEM's transports, and of DeepEP, which uses NVSHMEM and, from version 2 on, NCCL's GIN.

Errors go to standard error, warnings to standard output, both always; the others need NVSHMEM_DEBUG=INFO.
Read at NVIDIA/nvshmem v3.4.5-0 and its newest commit of 2025-10-16 (3.5.1), deepseek-ai/DeepEP v1.2.1 and
its newest commit of 2026-07-14. Older releases of NVSHMEM have the same texts as far as copies show.
"""

from __future__ import annotations

import functools
from errno import ENODATA, ETIMEDOUT

from gdrkit.messages.errors import EFAULT, EINVAL, ENOMEM, strerror
from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import causes_of

_line = functools.partial(MessageTemplate, "nvshmem", open_end=True)
_MODULES = "NVIDIA/nvshmem src/modules/transport"
_IBGDA = f"{_MODULES}/ibgda/ibgda.cpp"
_COMMON = f"{_MODULES}/common/transport_ib_common.cpp"
_GDR = f"{_MODULES}/common/transport_gdr_common.cpp"
_SKIPPED = ("nic-not-mlx5", "nic-atomics-off", "nic-buffers-not-mappable", "no-rdma-device", "port-down")
_NO_TRANSPORT = ("peermem-not-loaded", "nvshmem-misses-peermem", "verbs-library-missing", *_SKIPPED)
"""Consequences: lines above them say `Skipping transport` or `init failed for transport`."""

_deepep = functools.partial(MessageTemplate, "deepep", open_end=True, decides=False)
_TRAFFIC = ("retry-exceeded", "gid-index-wrong", "acs-redirect", "ibgda-peer-mapping-denied")
"""Time-outs of DeepEP: memory was registered, so packets or doorbells are lost."""

SEES_NO_MODULE = "nvshmem-sees-no-module"
UNSEEN_BY_NVSHMEM = ("peermem-not-loaded", "nvshmem-misses-peermem")
"""Why NVSHMEM finds no module: its other causes are about dma-buf, the other path."""

ROWS = (
    _line(
        "neither nv_peer_mem, or nvidia_peermem detected. Skipping transport",
        (*UNSEEN_BY_NVSHMEM, "driver-proprietary", "dmabuf-disabled-by-env", "gpu-unsupported"),
        source=f"{_IBGDA}, ibrc.cpp, ibdevx.cpp: printed only without dma-buf",
        name=SEES_NO_MODULE,
    ),
    _line(
        f"mem registration failed. Reason: {strerror(EFAULT)}",
        (*causes_of("ibv_reg_mr", EFAULT), "torch-expandable-segments"),
        source=f"{_COMMON}, nvshmemt_ib_common_reg_mem_handle(): the errno of its last try, ibv_reg_mr",
    ),
    _line(
        f"mem registration failed. Reason: {strerror(ENOMEM)}",
        (*causes_of("ibv_reg_mr", ENOMEM), "mkeys-exhausted"),
        source=f"{_COMMON}, nvshmemt_ib_common_reg_mem_handle()",
    ),
    _line(
        f"mem registration failed. Reason: {strerror(EINVAL)}",
        (*causes_of("ibv_reg_mr", EINVAL), "peermem-not-loaded"),
        source=f"{_COMMON}, nvshmemt_ib_common_reg_mem_handle()",
        decides=False,
    ),
    *(
        _line(
            f"non-zero status: {{number:{numbers}}} ibv_modify_qp failed",
            causes_of("ibv_modify_qp", number),
            source=f"{_MODULES}/ibrc/ibrc.cpp, ep_create() and ep_connect()",
            leads=True,
            sample=f"/nvshmem_src/src/modules/transport/ibrc/ibrc.cpp:401: non-zero status: {number} "
            "ibv_modify_qp failed",
        )
        for numbers, number in (("22", EINVAL), ("110|101|113", ETIMEDOUT), ("61", ENODATA))
    ),
    _line(
        "mem registration failed{:[. ]{0,2}}{:$}",
        ("peermem-not-loaded", "memory-not-registrable", "memlock-limit"),
        source="NVSHMEM's FAQ: usually the module is absent; binaries of 3.8.0 print no errno either",
        decides=False,
        sample="mem registration failed",
    ),
    _line(
        "ibv_reg_dmabuf_mr handle {pointer:0x[0-9a-f]+} mr (nil)",
        ("dmabuf-mr-refused", "verbs-lacks-dmabuf", "kernel-lacks-dmabuf"),
        source=f"{_COMMON}, nvshmemt_ib_common_reg_mem_handle()",
    ),
    _line(
        r"device {device:\S+} cannot allocate buffer on the specified memory type",
        ("nic-buffers-not-mappable", "peermem-not-loaded", "gdaki-kernel-too-old"),
        source=_IBGDA,
        leads=True,
    ),
    _line(
        "cannot allocate mlx5dv_devx_uar", ("ibgda-peer-mapping-denied", "rdma-device-not-in-container"),
        source=_IBGDA, decides=False,
    ),
    _line(
        "The system does not support registering the NIC control buffers with DMABUF",
        ("gdaki-kernel-too-old", "verbs-library-old"),
        source=_IBGDA,
    ),
    _line(
        r"device {device:\S+} does not support all necessary atomic operations",
        ("nic-atomics-off",),
        source=_IBGDA,
    ),
    _line(r"device {device:\S+} is not enumerated as an mlx5 device", ("nic-not-mlx5",), source=_IBGDA),
    _line(
        r"device {device:\S+} is not supported (expected HCA interface: {prefix:\S*})",
        ("nic-not-mlx5",),
        source=_IBGDA,
    ),
    _line(
        "ibgda_alloc_and_map_qp_uar with GPU as handler failed",
        ("ibgda-peer-mapping-denied",),
        source=_IBGDA,
    ),
    _line(
        "NIC handler will be CPU with {backend:gdrcopy|host memory|the selected GPU CPU mapping} backend",
        ("ibgda-cpu-assisted", "ibgda-peer-mapping-denied"),
        source=_IBGDA,
        sample="NIC handler will be CPU with gdrcopy backend.",
    ),
    _line("NIC buffer will be on host memory", ("nic-buffers-not-mappable",), source=_IBGDA, decides=False),
    _line("NVSHMEM_IBGDA_NIC_HANDLER=cpu requires GDRCopy", ("gdrcopy-not-loaded",), source=_IBGDA),
    _line(
        "no active IB device that supports GPU-initiated communication is found", _SKIPPED, source=_IBGDA
    ),
    _line(
        "GPU-initiated communication is compiled with GPU memory support only",
        ("nic-buffers-not-mappable",),
        source=_IBGDA,
    ),
    _line(
        r"{what:cound|could} not find user specified HCA name: {device:\S*} port:",
        ("hca-not-selected",),
        source=f"{_IBGDA}, as it is spelled there; corrected in the binaries of 3.8.0",
        sample="could not find user specified HCA name: mlx5_9 port: 1, skipping",
    ),
    _line(
        r"Unable to dlopen libibverbs. Skipping {transport:\w+} transport",
        ("verbs-library-missing",),
        source=f"{_IBGDA}; ibrc.cpp names the devx transport too",
        sample="Unable to dlopen libibverbs. Skipping IBGDA transport.",
    ),
    _line(
        "Unable to dlopen libmlx5dv. Disabling directNIC features",
        ("data-direct-missing", "verbs-library-missing"),
        source=_IBGDA,
    ),
    _line(
        "GDRCopy {what:library not found|open call failed}",
        ("gdrcopy-not-loaded",),
        source=f"{_GDR}: it costs nothing but atomics through the processor",
        decides=False,
        sample="GDRCopy open call failed, disabling GDRCopy.",
    ),
    _line(
        "GPU CPU mapping {what:disabled: no usable GDRCopy|initialization failed. Device memory}",
        ("gdrcopy-not-loaded",),
        source=f"binaries of 3.8.0, where it takes the place of {_GDR}",
        versions="3.8.0 and later",
        decides=False,
        sample="GPU CPU mapping disabled: no usable GDRCopy or CUDA DMA-BUF backend.",
    ),
    _line(
        r"GDRCopy library major version {value:\d+} is incompatible",
        ("gdrcopy-version-mismatch",),
        source="binaries of 3.8.0",
        versions="3.8.0 and later",
        sample="GDRCopy library major version 3 is incompatible with the supported API major version 2.",
    ),
    _line("GDRCopy library is older than v2.0", ("gdrcopy-version-mismatch",), source=_GDR),
    _line(
        "GDRCopy library version is not compatible with gdrapi.h", ("gdrcopy-version-mismatch",), source=_GDR
    ),
    _line(
        "EFA Provider requires GDRCopy, but it was disabled at compile time",
        ("gdrcopy-not-loaded",),
        source=f"{_MODULES}/libfabric/libfabric.cpp",
    ),
    _line(
        "GDRCopy Initialization failed. Device memory will not be supported",
        ("gdrcopy-not-loaded",),
        source=f"{_MODULES}/libfabric/libfabric.cpp",
    ),
    _line(
        "GDRCopy support not enabled. Unable to register gpu memory handle info",
        ("gdrcopy-not-loaded",),
        source=f"{_MODULES}/libfabric/libfabric.cpp",
    ),
    _line(
        r"[GPU {own:\d+}] Peer GPU {gpu:\d+} is not accessible, exiting",
        _NO_TRANSPORT,
        source="NVIDIA/nvshmem src/host/topo/topo.cpp",
        sample="[GPU 0] Peer GPU 8 is not accessible, exiting ...",
        decides=False,  # also two GPUs of one node that cannot reach each other
    ),
    _line(
        "Unable to register managed memory as it can migrate", ("memory-not-registrable",),
        source="NVIDIA/nvshmem src/host/mem/mem.cpp",
    ),
    _line(
        "No NICs were assigned to our", ("no-rdma-device", "hca-not-selected", "port-down"),
        source="NVIDIA/nvshmem src/host/topo/topo.cpp", decides=False,
    ),
    _line(
        "building transport map failed", _NO_TRANSPORT, source="NVIDIA/nvshmem src/host/init/init.cu"
    ),
    _line(
        "Unable to initialize any transports. returning error",
        ("no-rdma-device", "verbs-library-missing", "peermem-not-loaded"),
        source="NVIDIA/nvshmem src/host/transport/transport.cpp, after each transport has said why",
    ),
    _line(
        "nvshmemi_common_init failed, continuing", _NO_TRANSPORT, decides=False,
        source="NVIDIA/nvshmem src/host/init/init.cu, which returns success after it",
    ),
    _line(
        "no active IB device found, exiting", ("no-rdma-device", "port-down", "hca-not-selected"),
        source=f"{_MODULES}/ibrc/ibrc.cpp: NVLink may still reach every peer", decides=False, goes_on=True,
    ),
    _line(
        "init failed for transport: IBGDA",
        ("peermem-not-loaded", "nvshmem-misses-peermem", "ibgda-peer-mapping-denied", *_SKIPPED),
        source="NVIDIA/nvshmem src/host/transport/transport.cpp",
    ),
    _deepep(
        "NCCL GIN is unavailable. This is usually due to a network configuration issue",
        ("gin-unavailable", "gin-nics-fused", "peermem-not-loaded"),
        source="deepseek-ai/DeepEP csrc/kernels/backend/nccl.cu",
        versions="2 and later",
    ),
    _deepep(
        "NCCL compile-time and runtime versions must be the same",
        ("gin-library-mismatch",),
        source="deepseek-ai/DeepEP csrc/kernels/backend/nccl.cu",
        versions="2 and later",
    ),
    _deepep(
        "GPUDirect RDMA with CUDA VMM is not supported on this device",
        ("vmm-not-rdma-capable", "gpu-consumer", "gpu-unsupported"),
        source="deepseek-ai/DeepEP csrc/kernels/backend/symmetric.hpp",
        versions="2 and later",
    ),
    _deepep(
        "Duplicate NCCL runtime found in the current system",
        ("gin-library-mismatch",),
        source="deepseek-ai/DeepEP deep_ep/__init__.py",
        versions="2 and later",
    ),
    _deepep(
        r"Invalid NCCL versions: {loaded:\S+} (loaded) v.s. ",
        ("gin-library-mismatch",),
        source="deepseek-ai/DeepEP deep_ep/__init__.py",
        versions="2 and later",
        sample="Invalid NCCL versions: 2.28.3 (loaded) v.s. 2.30.4 (expected), ",
    ),
    _line(
        "found inactive port or port with non{:[ -]}{text:IB|IB/RoCE} link layer protocol",
        ("port-down",),
        source=f"{_IBGDA}, ibdevx.cpp: one line for each port, used or not",
        decides=False,
        goes_on=True,
        sample="found inactive port or port with non IB/RoCE link layer protocol, skipping...",
    ),
    _line(
        "directNIC features are disabled by NVSHMEM_DISABLE_DATA_DIRECT=1",
        ("data-direct-missing",),
        source=_IBGDA,
        goes_on=True,
    ),
    _deepep(
        "DeepEP error: {what:CPU recv timeout|timeout (?:.dispatch CPU)}",
        _TRAFFIC,
        source="deepseek-ai/DeepEP csrc/deep_ep.cpp",
        versions="1.2.1 and later",
        sample="DeepEP error: CPU recv timeout",
    ),
    _deepep(
        "DeepEP {what:dispatch|combine|Gin barrier}{:[ \\w]*} timeout, ",
        _TRAFFIC,
        source="deepseek-ai/DeepEP csrc/kernels/internode.cu; deep_ep/include/deep_ep/common/comm.cuh",
        sample="DeepEP dispatch RDMA sender timeout, channel: 3, RDMA: 1, nvl: 0",
    ),
)  # fmt: skip
