"""nv_peer_mem, the predecessor of nvidia-peermem."""

from __future__ import annotations

from gdrkit.facts.driver import driver_version
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import LSMOD, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Status, rule, the_node

FIRST_WITH_TABLE_2 = (580,)
"""From 580.65.06 NVIDIA_P2P_PAGE_TABLE_VERSION is 0x00020000; an older module rejects such a table:
open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h."""


@rule(
    "legacy-nv-peer-mem",
    Layer.DRIVER,
    per=the_node,
    takes=(ADDRESS,),
    default_status=Status.WARNING,
    reported_by=(DecidingCommand(LSMOD, "nv_peer_mem"),),
    remedies=(RemedyName.REMOVE_NV_PEER_MEM,),
    cost="nvidia-peermem cannot register beside it, and it does not work with recent drivers.",
    references=("https://github.com/Mellanox/nv_peer_memory",),
)
def legacy_nv_peer_mem(node: Node, _: str) -> Outcome:
    """The archived module nv_peer_mem is loaded or installed instead of nvidia-peermem.

    Cost: From driver 525.105.17 on, its persistent client fails
    (`error -22 while calling nvidia_p2p_get_pages() with NULL callback`). From 580 on, it cannot read the
    driver's page tables at all. With older drivers it works.

    How to tell: `lsmod | grep -E 'peer_?mem'` prints nv_peer_mem, or its file is among the modules
    (`modinfo -n nv_peer_mem`). The packages nvidia-peer-memory and nvidia-peer-memory-dkms bring it.

    What to do: Run `sudo systemctl disable --now nv_peer_mem` and `sudo rmmod nv_peer_mem`, and remove its
    packages. Then run `sudo modprobe nvidia-peermem`, or use dma-buf and neither module.

    Why: nvidia-peermem replaced it with driver branch 470. Both register as nv_mem, so the second one to
    load is refused.

    Source: Mellanox/nv_peer_memory README.md and nv_peer_mem.c; open-gpu-kernel-modules
    kernel-open/nvidia/nv-p2p.c, nvidia_p2p_get_pages().
    """
    if is_loaded(node, LEGACY):
        return Failed(
            seen=f"{LEGACY} is loaded, driver {driver_version(node)}",
            expected="nvidia_peermem, or neither",
            subject=LEGACY,
            takes=() if works_with_driver(node) else None,
        )
    path = _installed(node)
    if not path:
        return NotApplicable(f"{LEGACY} is not loaded")
    return Failed(
        seen=f"{path} is installed, not loaded",
        expected="no such module",
        subject=LEGACY,
        takes=(),
        cost="If its service starts before nvidia-peermem, nvidia-peermem is refused.",
    )


def _installed(node: Node) -> str:
    """The old module's file; "" if none is found: a file that is not loaded blocks nothing."""
    return if_missing("", module_path, node, LEGACY)


def serving_client(node: Node) -> str:
    """The loaded client of the peer-memory API that works with the driver; "" if none is known."""
    if is_loaded_for_sure(node, PEERMEM):
        return PEERMEM
    serves = is_loaded_for_sure(node, LEGACY) and if_missing(False, works_with_driver, node)
    return LEGACY if serves else ""


def works_with_driver(node: Node) -> bool:
    """Whether nv_peer_mem can read the page tables of this driver."""
    return numbers(driver_version(node)) < FIRST_WITH_TABLE_2
