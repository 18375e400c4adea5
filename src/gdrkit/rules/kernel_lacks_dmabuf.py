"""RDMA drivers that cannot register a dma-buf."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.facts.verbs_kernel import dmabuf_exporter, takes_dmabuf, verbs_module
from gdrkit.node import Node
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, Outcome, Passed, rule

_ADVICE = {
    "bnxt_re": "Install Linux 6.6 or newer, whose bnxt_re registers dma-bufs, or Broadcom's own driver. Do "
    "not install DOCA-OFED: it has no bnxt_re, and the NIC would be left without a driver."
}
"""Linux 6.6 drivers/infiniband/hw/bnxt_re/ib_verbs.c, bnxt_re_reg_user_mr_dmabuf()."""


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
    """The kernel's driver for this RDMA device cannot register dma-bufs.

    Cost: The dma-buf path is closed for this device.

    How to tell: `gdr probe verbs` shows that `ibv_reg_dmabuf_mr` fails with EOPNOTSUPP (95). No module
    exports ib_umem_dmabuf_get or ib_umem_dmabuf_get_pinned
    (`grep ib_umem_dmabuf /lib/modules/$(uname -r)/modules.symbols`), or the device's own verbs module
    (mlx5_ib for ConnectX) imports neither.

    What to do: Install a newer kernel or OFED; for ConnectX, also see kernel-lacks-odp. Otherwise use
    nvidia-peermem.

    Why: The RDMA core can do it since Linux 5.12. The drivers followed separately: mlx5 at the same time,
    irdma, bnxt_re and efa later, mlx4 and the software devices never. Distributions backport it, so the
    version does not decide.

    Source: Linux drivers/infiniband/core/umem_dmabuf.c, drivers/infiniband/hw/mlx5/mr.c,
    reg_user_mr_dmabuf().
    """
    module = verbs_module(_driver(device))
    exporter = dmabuf_exporter(node)
    if not exporter:
        return Failed(
            seen="nothing exports ib_umem_dmabuf_get*",
            expected="an export by ib_uverbs",
            subject=device.name,
        )
    if takes_dmabuf(node, module):
        return Passed(f"{module} imports it from {exporter}")
    return Failed(
        seen=f"{module} imports no ib_umem_dmabuf_get*",
        expected="an import",
        subject=device.name,
        advice=_ADVICE.get(module, ""),
    )


def _driver(device: RdmaDevice) -> str:
    """The driver of a device; for a device made by software, the driver after which such devices are
    usually named."""
    if device.driver:
        return device.driver
    if device.name.startswith("mlx5_"):  # the kernel names them so: mlx5_ib main.c
        return "mlx5_core"
    if device.virtual:
        return device.name.rstrip("0123456789_")
    ask = f"readlink {quoted(f'/sys/class/infiniband/{device.name}/device/driver')}"
    raise EvidenceMissing(Missing(f"driver of {device.name}", MissingReason.NOT_COLLECTED, ask))
