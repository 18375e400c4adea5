"""RDMA drivers that cannot register a dma-buf."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.facts.verbs_kernel import dmabuf_exporter, takes_dmabuf, verbs_module
from gdrkit.node import Node
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, Outcome, Passed, rule


@rule(
    "kernel-lacks-dmabuf",
    Layer.KERNEL,
    per=rdma_devices,
    takes=(DMABUF,),
    reported_by=(
        DecidingCommand(VERBS_PROBE, "EOPNOTSUPP (95), with a libibverbs that has ibv_reg_dmabuf_mr"),
    ),
    cost="ibv_reg_dmabuf_mr fails with EOPNOTSUPP on this device; only nvidia-peermem gives a direct path.",
    references=("https://docs.kernel.org/driver-api/dma-buf.html",),
)
def kernel_lacks_dmabuf(node: Node, device: RdmaDevice) -> Outcome:
    """The kernel's driver of this RDMA device cannot register dma-bufs.

    Cost: The dma-buf path is closed for this device.

    How to tell: No module exports ib_umem_dmabuf_get or ib_umem_dmabuf_get_pinned, or the device's own
    verbs module (mlx5_ib for ConnectX) imports neither. `ibv_reg_dmabuf_mr` answers EOPNOTSUPP (95).

    What to do: A newer kernel or OFED; for ConnectX also see kernel-lacks-odp. Else nvidia-peermem.

    Why: The RDMA core learned it in Linux 5.12, each driver at a time of its own: mlx5 with it, irdma,
    bnxt_re and efa later, mlx4 and the software devices never. Distributions backport it, so the version
    tells nothing.

    Source: Linux drivers/infiniband/core/umem_dmabuf.c, drivers/infiniband/hw/mlx5/mr.c,
    reg_user_mr_dmabuf().
    """
    module = verbs_module(_driver(device))
    exporter = dmabuf_exporter(node)
    if not exporter:
        return Failed(
            seen="nothing exports ib_umem_dmabuf_get*", expected="ib_uverbs exports it", subject=device.name
        )
    if takes_dmabuf(node, module):
        return Passed(f"{module} imports it from {exporter}")
    return Failed(seen=f"{module} imports no ib_umem_dmabuf_get*", expected="it does", subject=device.name)


def _driver(device: RdmaDevice) -> str:
    """The driver of a device; of one made by software, by the name that everybody gives it."""
    if device.driver:
        return device.driver
    if device.name.startswith("mlx5_"):  # the kernel's own name for them: mlx5_ib main.c
        return "mlx5_core"
    if device.virtual:
        return device.name.rstrip("0123456789_")
    ask = f"readlink /sys/class/infiniband/{device.name}/device/driver"
    raise EvidenceMissing(Missing(f"driver of {device.name}", MissingReason.NOT_COLLECTED, ask))
