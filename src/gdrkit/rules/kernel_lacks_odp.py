"""ConnectX drivers built without on-demand paging."""

from __future__ import annotations

from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.facts.verbs_kernel import ODP_OPTION, on_demand_paging
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import DMABUF, Failed, Layer, NotApplicable, Outcome, Passed, rule


@rule(
    "kernel-lacks-odp",
    Layer.KERNEL,
    per=rdma_devices,
    takes=(DMABUF,),
    reported_by=(DecidingCommand("grep ON_DEMAND_PAGING /boot/config-$(uname -r)", "`is not set`"),),
    cost="mlx5 refuses every ibv_reg_dmabuf_mr with EOPNOTSUPP; only nvidia-peermem gives a direct path.",
    references=("https://docs.kernel.org/infiniband/index.html",),
)
def kernel_lacks_odp(node: Node, device: RdmaDevice) -> Outcome:
    """The kernel was built without on-demand paging, so its mlx5 driver refuses dma-bufs.

    Cost: The dma-buf path is closed for every ConnectX in this node. Other vendors' drivers do not need the
    option.

    How to tell: `grep ON_DEMAND_PAGING /boot/config-$(uname -r)` prints that
    CONFIG_INFINIBAND_ON_DEMAND_PAGING is not set, or mlx5_ib imports neither ib_umem_odp_get nor
    ib_umem_dmabuf_get.
    `gdr probe verbs` shows that `ibv_reg_dmabuf_mr` fails with EOPNOTSUPP (95).

    What to do: Install a kernel with that option, or OFED, which brings its own modules.

    Why: mlx5's dma-buf code is compiled only with CONFIG_INFINIBAND_USER_MEM and
    CONFIG_INFINIBAND_ON_DEMAND_PAGING. Some kernels for small systems or containers leave the latter out.

    Source: Linux drivers/infiniband/hw/mlx5/mr.c, mlx5_ib_reg_user_mr_dmabuf(); drivers/infiniband/Kconfig.
    """
    if not device.driver.startswith("mlx5") and (device.driver or not device.name.startswith("mlx5")):
        return NotApplicable("only mlx5 needs it")
    if on_demand_paging(node):
        return Passed("built with on-demand paging")
    return Failed(
        seen=f"mlx5_ib was built without {ODP_OPTION}", expected=f"{ODP_OPTION}=y", subject=device.name
    )
