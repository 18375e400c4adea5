"""Programs that register memory themselves with libibverbs, as perftest and DPDK do.

Which of the two calls they make is theirs: perftest makes the one for dma-buf with --use_cuda_dmabuf, DPDK's
mlx5 driver never (drivers/common/mlx5, mlx5_common_verbs_reg_mr()), so that it needs nvidia-peermem for the
memory of a GPU that rte_extmem_register() names. Managed memory can be registered in neither way.
"""

from __future__ import annotations

from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.rules.capabilities import Path

VERBS = Consumer(
    name="verbs",
    title="libibverbs",
    without="gets an error, and decides itself",
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(path=Path.PEERMEM),
        PathSupport(path=Path.HOST_MAPPED),
        PathSupport(path=Path.STAGED),
    ),
    common=True,
)
