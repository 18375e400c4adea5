"""nv_peer_mem, the predecessor of nvidia-peermem."""

from __future__ import annotations

from gdrkit.facts.driver import driver_version
from gdrkit.facts.modules import PEERMEM, is_loaded, module_path
from gdrkit.facts.peer_memory import LEGACY
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import LSMOD, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Status, rule, the_node


@rule(
    "legacy-nv-peer-mem",
    Layer.DRIVER,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand(LSMOD, "nv_peer_mem"),),
    remedies=(RemedyName.REMOVE_NV_PEER_MEM,),
    cost="nvidia-peermem cannot register beside it, and newer programs do not look for it.",
    references=("https://github.com/Mellanox/nv_peer_memory",),
)
def legacy_nv_peer_mem(node: Node, _: str) -> Outcome:
    """The archived module nv_peer_mem is loaded or installed instead of nvidia-peermem.

    Cost: It registers GPU memory as nvidia-peermem does, but NCCL and NVSHMEM do not look for the module
    itself, only for its folder in /sys/kernel/mm/memory_peers, which newer kernels do not have. From driver
    525.105.17 on, its second client, for memory that is never revoked, fails
    (`error -22 while calling nvidia_p2p_get_pages() with NULL callback`).

    How to tell: `lsmod | grep -E 'peer_?mem'` prints nv_peer_mem, or its file is among the modules
    (`modinfo -n nv_peer_mem`). The packages nvidia-peer-memory and nvidia-peer-memory-dkms bring it.

    What to do: Run `sudo systemctl disable --now nv_peer_mem` and `sudo rmmod nv_peer_mem`, and remove its
    packages. Then run `sudo modprobe nvidia-peermem`, or use dma-buf and neither module.

    Why: nvidia-peermem replaced it with driver branch 470. Both register as nv_mem, so the second one to
    load is refused. Driver 580.65.06 changed the version of page tables, which nv_peer_mem does not look at:
    it compares the version of DMA mappings, which did not change. It should therefore work there, but was
    not tried.

    Source: Mellanox/nv_peer_memory README.md and nv_peer_mem.c 1.3, nv_mem_acquire() and nv_dma_map();
    open-gpu-kernel-modules kernel-open/nvidia/nv-p2p.h, and nv-p2p.c, nvidia_p2p_get_pages().
    """
    if is_loaded(node, LEGACY):
        version = if_missing("", driver_version, node)
        return Failed(
            seen=f"{LEGACY} is loaded" + (f", driver {version}" if version else ""),
            expected="nvidia_peermem, or neither",
            subject=LEGACY,
        )
    path = _installed(node)
    if not path:
        return NotApplicable(f"{LEGACY} is not loaded")
    return Failed(
        seen=f"{path} is installed, not loaded",
        expected="no such module",
        subject=LEGACY,
        cost="If its service starts before nvidia-peermem, nvidia-peermem is refused.",
    )


def _installed(node: Node) -> str:
    """The old module's file; "" if none is found: a file that is not loaded blocks nothing."""
    return if_missing("", module_path, node, LEGACY)


def serving_client(node: Node) -> str:
    """The loaded client of the peer-memory API; "" if none is known."""
    return next((client for client in (PEERMEM, LEGACY) if is_loaded_for_sure(node, client)), "")
