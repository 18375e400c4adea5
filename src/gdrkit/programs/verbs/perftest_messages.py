"""Messages of perftest: ib_write_bw and similar programs."""

from __future__ import annotations

from gdrkit.messages.message import MessageTemplate
from gdrkit.messages.verbs_failures import NO_DMABUF, NO_GPU, causes_of

_RESOURCES = "perftest src/perftest_resources.c"
_REGISTER = f"{_RESOURCES}, register_memory_region(), and create_single_mr() in 25.01 and before"

ROWS = (
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR with error=14{:\b}",
        causes_of("ibv_reg_mr", 14),
        source=_REGISTER,
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR with error=12{:\b}",
        causes_of("ibv_reg_mr", 12),
        source=_REGISTER,
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR with error=22{:\b}",
        causes_of("ibv_reg_dmabuf_mr", 22),
        source="Linux drivers/infiniband/hw/mlx5/mr.c, reg_user_mr_dmabuf()",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR with error={number:(?:95|93)\b}",
        NO_DMABUF,
        source="rdma-core libibverbs/verbs.c, ibv_reg_dmabuf_mr()",
        leads=True,
        open_end=True,
        sample="Couldn't allocate MR with error=93",
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR with error=524{:\b}",
        ("topology-refused", "gpu-vgpu", "gpu-mig"),
        source="open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.c, status map",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"Couldn't allocate MR{:\s*$}",
        (*causes_of("ibv_reg_mr", 14), "memlock-limit"),
        source=f"{_RESOURCES}, create_single_mr(); later, only for the buffer of credits",
        versions="before 25.10; since 4.5-0.18 not for a dma-buf",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        "DMA-BUF is not supported on this GPU",
        ("gpu-integrated", *NO_GPU, "gpu-before-turing", "driver-proprietary", "kernel-lacks-dmabuf"),
        source="perftest src/cuda_memory.c, cuda_memory_init(): CUDA attribute 124",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        "OFED stack does not support DMA-BUF",
        NO_DMABUF,
        source=_REGISTER,
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"CUDA device integrated: 1{:\b}",
        ("gpu-integrated",),
        source="perftest src/cuda_memory.c, cuda_allocate_device_memory_buffer(); of Jetsons, too",
        decides=False,
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        "DMABUF requested but not supported in this build",
        ("verbs-library-old", "verbs-lacks-dmabuf"),
        source=f"{_RESOURCES}, register_mr(): perftest was built with a libibverbs without dma-buf",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        r"cuMemGetHandleForAddressRange error={number:\d+}",
        ("driver-proprietary", "memory-not-registrable", "gpu-integrated", *NO_GPU),
        source="perftest src/cuda_memory.c, cuda_allocate_device_memory_buffer()",
        open_end=True,
    ),
    MessageTemplate(
        "perftest",
        "{what:No data direct support|Couldn't get data direct sysfs path|Data Direct is not supported}",
        ("data-direct-missing", "verbs-library-old"),
        source=f"{_RESOURCES}, register_mr(); src/perftest_parameters.c",
        versions="25.01 and later",
        open_end=True,
        sample=" Data Direct is not supported",
    ),
)
