"""The functions of the kernel that register memory with RDMA devices.

The first arguments of ib_device_ops.reg_user_mr and .reg_user_mr_dmabuf: Linux include/rdma/ib_verbs.h.
"""

from __future__ import annotations

from typing import NamedTuple

_DRIVERS = (
    "mlx5_ib", "rxe", "irdma", "bnxt_re", "efa", "mana_ib", "erdma", "siw", "hns_roce", "ionic", "mlx4_ib",
)  # fmt: skip


class Probe(NamedTuple):
    """A function of the kernel, what a call of it means, and which argument is the length; 0: none."""

    function: str
    kind: str
    length: int


PROBES = (
    *(Probe(driver + "_reg_user_mr", "address", 3) for driver in _DRIVERS),  # host memory or peermem
    *(Probe(driver + "_reg_user_mr_dmabuf", "dmabuf", 3) for driver in _DRIVERS),
    Probe("nv_mem_get_pages", "peermem", 2),
    Probe("ib_dereg_mr_user", "deregistered", 0),
)
"""The driver's own operation, not ib_umem_get(): that also pins queues on mlx5."""
