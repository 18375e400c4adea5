"""A module that keeps OFED from being restarted."""

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
    cost="`openibd restart`, an OFED upgrade, or an OFED pod's restart fails while it is loaded.",
    references=("https://github.com/Mellanox/doca-driver-build/pull/481",),
)
def peermem_blocks_ofed(node: Node, module: str) -> Outcome:
    """nvidia-peermem holds the RDMA core, so that OFED's service cannot unload it.

    Cost: Nothing until OFED is restarted or upgraded. The other way round, the GPU Operator's container may
    load the module again in the middle of a restart.

    How to tell: nvidia_peermem is loaded and a user of ib_core or ib_uverbs, and OFED's service or
    container runs the stack. `openibd restart` says that a module is in use.

    What to do: `modprobe -r nvidia_peermem` right before, and load it again afterwards. With the operators,
    delete the driver pod before the OFED pod.

    Why: A module that is used cannot be unloaded, and openibd does not know this user.

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
