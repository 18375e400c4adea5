"""Lines that programs other than the module loader print, and what can cause them. PURE.

The rows about loading modules stand in words.py; these are of perftest, programs on libibverbs, NCCL,
NVIDIA's drivers, the GPU Operator and Talos. A line with several causes leaves all of them open. A row whose
single cause can also be something passing, or something that is no fault, does not decide.
"""

from __future__ import annotations

from msgspec import Struct

OGKM = "open-gpu-kernel-modules"
NET_IB = "NCCL src/transport/net_ib"
CONTAINER = "gpu-driver-container ubuntu24.04/nvidia-driver, reload_nvidia_peermem()"


class Row(Struct, frozen=True):
    """One form of a line."""

    name: str
    pattern: (
        str  # searched, so that it may stand behind a time stamp; `module` is a group where it names one
    )
    codes: tuple[str, ...]
    sample: str
    source: str
    decides: bool = True
    module: str = ""  # the module that it is about, where its words imply one
    of_loader: bool = False  # a program that loads modules says it, and names the one it was asked for


_GPU = ("gpu-consumer", "gpu-unsupported", "gpu-vgpu", "gpu-confidential", "gpu-mig")
EFAULT = ("peermem-not-loaded", "gpu-integrated", *_GPU, "bar1-exhausted", "memory-not-registrable")
"""Why ibv_reg_mr answers EFAULT to GPU memory. In the API since MOFED 5.1 the core pins the pages itself
first, which fails, and keeps that error unless a peer claims them; nvidia-peermem turns each refusal of
nvidia_p2p_get_pages into "not mine". Source: MLNX_OFED drivers/infiniband/core/umem.c;
open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c."""

NO_DMABUF = ("verbs-lacks-dmabuf", "kernel-lacks-dmabuf", "kernel-lacks-odp", "dmabuf-mr-refused")
NO_NET_GDR = (
    "peermem-not-loaded",
    "nccl-misses-peermem",
    "nccl-lacks-dmabuf",
    "dmabuf-disabled-by-env",
    "driver-proprietary",
    "gpu-integrated",
    "gpu-consumer",
    "gpu-unsupported",
    *NO_DMABUF,
)
"""Why NCCL's network says that it cannot: neither a file of nvidia-peermem's nor dma-buf, whose half on the
GPU's side (CUDA attribute 124) counts as well. Source: NCCL src/graph/topo.cc and transport/net_ib."""

_REG = r"ibv_reg_mr\w*(?:\(\))?\W.{0,80}?"
_REG_DMABUF = r"ibv_reg_dmabuf_mr(?:\(\))?\W.{0,80}?"

PERFTEST = (
    Row(
        "mr-efault",
        r"Couldn't allocate MR with error=14\b",
        EFAULT,
        "Couldn't allocate MR with error=14",
        "perftest src/perftest_resources.c, create_single_mr()",
    ),
    Row(
        "mr-enomem",
        r"Couldn't allocate MR with error=12\b",
        ("memlock-limit", "bar1-exhausted"),
        "Couldn't allocate MR with error=12",
        "perftest src/perftest_resources.c",
    ),
    Row(
        "mr-einval",
        r"Couldn't allocate MR with error=22\b",
        ("dmabuf-mr-refused", "memory-not-registrable"),
        "Couldn't allocate MR with error=22",
        "Linux drivers/infiniband/hw/mlx5/mr.c, reg_user_mr_dmabuf()",
    ),
    Row(
        "mr-unsupported",
        r"Couldn't allocate MR with error=(?:95|93)\b",
        NO_DMABUF,
        "Couldn't allocate MR with error=93",
        "rdma-core libibverbs/verbs.c, ibv_reg_dmabuf_mr()",
    ),
    Row(
        "mr-enotsupp",
        r"Couldn't allocate MR with error=524\b",
        ("topology-refused", "gpu-vgpu", "gpu-mig"),
        "Couldn't allocate MR with error=524",
        f"{OGKM} kernel-open/nvidia/nv-p2p.c, status map",
    ),
    Row(
        "mr",
        r"Couldn't allocate MR\s*$",
        (*EFAULT, "memlock-limit"),
        "Couldn't allocate MR",
        "perftest before 4.5, src/perftest_resources.c",
    ),
    Row(
        "no-dmabuf-on-gpu",
        r"DMA-BUF is not supported on this GPU",
        ("gpu-integrated", *_GPU, "gpu-before-turing", "driver-proprietary", "kernel-lacks-dmabuf"),
        "DMA-BUF is not supported on this GPU",
        "perftest src/cuda_memory.c: CUDA attribute 124",
    ),
    Row(
        "no-dmabuf-in-stack",
        r"OFED stack does not support DMA-BUF",
        NO_DMABUF,
        "OFED stack does not support DMA-BUF",
        "perftest src/perftest_resources.c",
    ),
    Row(
        "integrated",
        r"CUDA device integrated: 1\b",
        ("gpu-integrated",),
        "CUDA device integrated: 1",
        "perftest src/cuda_memory.c; Jetsons are integrated, too",
        decides=False,
    ),
)

VERBS = (
    Row(
        "reg-efault",
        rf"{_REG}(?:Bad address|errno[ =:]+14\b|error[ =:]+14\b)",
        EFAULT,
        "h1:1:2 [0] NCCL WARN Call to ibv_reg_mr failed with error Bad address",
        "ibv_reg_mr(3)",
    ),
    Row(
        "reg-enomem",
        rf"{_REG}(?:Cannot allocate memory|errno[ =:]+12\b|error[ =:]+12\b)",
        ("memlock-limit", "bar1-exhausted"),
        "Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "ibv_reg_mr(3)",
    ),
    Row(
        "dmabuf-unsupported",
        rf"{_REG_DMABUF}(?:Operation not supported|Protocol not supported|err\w*[ =:]+(?:95|93)\b)",
        NO_DMABUF,
        "Call to ibv_reg_dmabuf_mr failed with error Operation not supported",
        "rdma-core libibverbs/verbs.c; Linux drivers/infiniband/hw/mlx5/mr.c",
    ),
    Row(
        "dmabuf-einval",
        rf"{_REG_DMABUF}(?:Invalid argument|err\w*[ =:]+22\b)",
        ("dmabuf-mr-refused", "memory-not-registrable"),
        "ibv_reg_dmabuf_mr failed: Invalid argument",
        "Linux drivers/infiniband/hw/mlx5/mr.c",
    ),
    Row(
        "no-devices",
        r"No IB devices found",
        ("no-rdma-device", "rdma-device-not-in-container"),
        "No IB devices found",
        "rdma-core libibverbs/examples/devinfo.c",
        decides=False,
    ),
)

NCCL = (
    Row(
        "hca-disabled",
        r"NET/IB : GPU Direct RDMA Disabled for HCA \d+ '",
        NO_NET_GDR,
        "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        f"{NET_IB}.cc; src/graph/topo.cc",
    ),
    Row(
        "too-far",
        r"GPU Direct RDMA Disabled for GPU [0-9a-f]+(?:\[\d+\])? / HCA [0-9a-f]+ \(distance \d+ >",
        ("pair-distant", "pair-cross-socket", "gdr-level-too-low"),
        "GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 7 > 4)",
        "NCCL src/graph/paths.cc",
    ),
    Row(
        "no-device",
        r"NET/IB : No device found\.?",
        ("no-rdma-device", "rdma-device-not-in-container", "port-down", "hca-not-selected"),
        "h1:1:1 [0] NCCL INFO NET/IB : No device found.",
        f"{NET_IB}.cc, ncclIbInitDevices()",
    ),
    Row(
        "protection",
        r"Got completion .*(?:status=(?:IBV_WC_LOC_PROT_ERR\()?4\b|with error 4\b|IBV_WC_LOC_PROT_ERR)",
        ("acs-redirect", "iommu-translating"),
        "NET/IB : Got completion from peer 10.0.0.2<1> with status=4 opcode=0 len=0 vendor err 81",
        f"{NET_IB}.cc; ibv_poll_cq(3)",
    ),
    Row(
        "retries",
        r"Got completion .*(?:status=(?:IBV_WC_RETRY_EXC_ERR\()?12\b|with error 12\b|IBV_WC_RETRY_EXC_ERR)",
        ("retry-exceeded",),
        "NET/IB : Got completion from peer 10.0.0.2<1> with status=12 opcode=0 len=0 vendor err 129",
        f"{NET_IB}.cc; ibv_poll_cq(3)",
    ),
    Row(
        "gid",
        r"Call to ibv_modify_qp failed with (?:error Invalid argument|22 )",
        ("gid-index-wrong",),
        "NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22",
        "NCCL src/misc/ibvwrap.cc; Linux drivers/infiniband/core/verbs.c",
        decides=False,
    ),
    Row(
        "mixed",
        r"Mismatched NCCL version detected",
        ("versions-differ-between-ranks",),
        "Mismatched NCCL version detected : rank 0 version 22304 rank 3 version 22005",
        "NCCL src/init.cc",
    ),
)

ROWS: tuple[Row, ...] = (*PERFTEST, *VERBS, *NCCL)
