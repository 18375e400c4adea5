"""A loaded nvidia-peermem prevents a restart of OFED."""

from __future__ import annotations

from gdrkit.facts.driver import peer_api_exporter
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import ofed
from gdrkit.node import Node, if_absent
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, rule


@rule(
    "peermem-blocks-ofed",
    Layer.DRIVER,
    per=peermem,
    cost="`openibd restart`, an OFED upgrade or the restart of an OFED pod fails while it is loaded.",
    references=("https://github.com/Mellanox/doca-driver-build/pull/481",),
)
def peermem_blocks_ofed(node: Node, module: str) -> Outcome:
    """nvidia-peermem uses the RDMA core, so OFED's service cannot unload the RDMA core.

    Cost: None until OFED is restarted or upgraded. Conversely, the GPU Operator's container may load
    nvidia-peermem again in the middle of an OFED restart.

    How to tell: `lsmod` lists nvidia_peermem as a user of ib_core or ib_uverbs, and OFED's service or
    container provides the RDMA stack. `openibd restart` says that a module is in use.

    What to do: Run `sudo modprobe -r nvidia_peermem` right before OFED is restarted or upgraded, and
    `sudo modprobe nvidia-peermem` afterwards. With the operators, delete the driver pod before the OFED pod.

    Why: A module that another module uses cannot be unloaded, and openibd does not know that nvidia-peermem
    uses its modules.

    Source: Linux kernel/module/main.c, delete_module(); MLNX_OFED /etc/init.d/openibd.
    """
    if not is_loaded(node, module):
        return NotApplicable("it is not loaded")
    if ofed(node).kind == "inbox":
        return NotApplicable("the kernel's own RDMA stack is not restarted")
    restarts = if_absent(False, node.exists, "etc/init.d/openibd") or if_absent(
        False, node.exists, "run/mellanox/drivers"
    )
    if not restarts:
        return NotApplicable("no openibd and no OFED container")
    holder = peer_api_exporter(node) or "the RDMA core"
    return Failed(seen=f"{module} uses {holder}", expected="unloaded before OFED restarts", subject=module)
