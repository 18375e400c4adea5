"""The RDMA core refused to register nvidia-peermem."""

from __future__ import annotations

import re

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts import kernel_log
from gdrkit.facts.driver_files import peermem_path
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.modules import PEERMEM, information, is_loaded, module_path
from gdrkit.facts.peer_memory import CLIENT, LEGACY, MEMORY_PEERS, memory_peers
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.formats.module_name import canonical
from gdrkit.formats.regex import regex
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.deciding_command import DMESG, LSMOD, DecidingCommand
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

_FIRST_WITH_TWO_FUNCTIONS = (560,)
"""The line names nv_mem_client_init before 560.28.03, and nv_mem_legacy_client_init or
nv_mem_nc_client_init since: nvidia-peermem.c."""
_ONE_FUNCTION = regex(r"nvidia-peermem nv_mem_client_init:")
_TAKEN = (
    rf"cannot create duplicate filename '/kernel/mm/memory_peers/{CLIENT}'"
    rf"|kobject_add_internal failed for {CLIENT} with -EEXIST"
)
"""Linux fs/sysfs/dir.c, sysfs_warn_dup(), and lib/kobject.c, kobject_add_internal(): create_peer_sysfs()."""
REFUSED = r"nvidia-peermem .*error while registering (?:traditional|nc) client"


@rule(
    "peermem-registration-refused",
    Layer.DRIVER,
    per=peermem,
    takes=(ADDRESS,),
    loading=LoadPosition(Stage.INIT, 2),
    module=PEERMEM,
    logged=True,
    reported_by=(
        DecidingCommand(DMESG, "`error while registering ... client`"),
        DecidingCommand(LSMOD, "nv_peer_mem"),
    ),
    remedies=(RemedyName.REMOVE_NV_PEER_MEM,),
    cost="nvidia-peermem cannot load.",
    references=("https://github.com/NVIDIA/open-gpu-kernel-modules",),
)
def peermem_registration_refused(node: Node, module: str) -> Outcome:
    """The RDMA core refused to register nvidia-peermem as a client, so its init function returns -EINVAL.

    Cost: The peermem path is closed.

    How to tell: `modprobe nvidia-peermem` says `Invalid argument`, and the kernel log shows
    `nvidia-peermem ... error while registering traditional client` or `... nc client`. An earlier line tells
    nothing once nv_peer_mem was unloaded or the driver was replaced: load the module again and look.

    What to do: Run `lsmod | grep nv_peer_mem`.

    1. If it is loaded, stop its service, unload it and remove its package, then run
       `sudo modprobe nvidia-peermem`.
    2. If it is not loaded, the RDMA stack and the driver do not match: rebuild the driver against the RDMA
       stack that is loaded.

    Why: The RDMA core returns no handle if a client with the same name, nv_mem, is already registered (the
    older nv_peer_mem uses this name), if a mandatory callback is missing, or if it is out of memory. Only a
    core that has a folder for each client in /sys/kernel/mm/memory_peers compares the names.

    Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_legacy_client_init()
    and nv_mem_nc_client_init(); MLNX_OFED drivers/infiniband/core/peer_mem.c,
    ib_register_peer_memory_client() and create_peer_sysfs().
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("not nvidia-peermem")
    if is_loaded(node, PEERMEM):
        return Passed("it is loaded, so it is registered")
    if is_loaded_for_sure(node, LEGACY) and _compares_names(node):
        return Failed(
            seen=f"{LEGACY} is loaded and is registered as {CLIENT}",
            expected="no other client of that name",
            subject=PEERMEM,
            takes=(),  # nv_peer_mem serves the path itself: legacy-nv-peer-mem tells whether it can
        )
    try:
        line = last_line(node, REFUSED)
    except EvidenceMissing as error:  # a refusal is rare, and an attempt to load shows it
        node.cite("no refusal was seen", confidence=Confidence.LIKELY)
        return Passed("no refusal was seen", (error.missing,))
    if line is None:
        return Passed("no refusal in the log of this boot")
    if _name_is_free_again(node, line.number):
        return Passed(f"it was refused for a second client of the name {CLIENT}, and none is listed now")
    if gone := _cause_is_gone(node, line.text):
        ask = "sudo modprobe nvidia-peermem; sudo dmesg | tail"
        raise EvidenceMissing(Missing(f"whether it is still refused ({gone})", MissingReason.UNDECIDED, ask))
    node.cite("the cause of the refusal", text="not known to have gone", confidence=Confidence.LIKELY)
    return Failed(seen=line.text, expected="a registered client", subject=PEERMEM)


def _compares_names(node: Node) -> bool:
    """Whether the RDMA core refuses a second client of a name: if it lists the first one."""
    try:
        return any(peer.client == CLIENT for peer in if_absent((), memory_peers, node))
    except EvidenceMissing:
        node.cite(MEMORY_PEERS, text="not known, as most RDMA stacks have it", confidence=Confidence.LIKELY)
        return True


def _name_is_free_again(node: Node, refused_at: int) -> bool:
    """Whether the log shows that the last refusal was for a name that was taken, which it no longer is: even
    if nv_peer_mem is loaded, where the stack that runs now lists no client of the name and so compares none.

    Only the last attempt counts: what it logged is between the refusal before it and its own."""
    log = if_missing(None, kernel_log.lines, node)
    if log is None:
        return False
    clients = if_missing(None, lambda: if_absent((), memory_peers, node))  # no folder: no RDMA stack runs
    if clients is None or any(peer.client == CLIENT for peer in clients):
        return False
    for line in reversed([line for line in log.lines if line.number < refused_at]):
        if re.search(REFUSED, line.text):
            return False
        if re.search(_TAKEN, line.text):
            node.cite(log.source, text=line.text, line=line.number)
            return True
    return False


def _cause_is_gone(node: Node, line: str) -> str:
    """Evidence that the next attempt may succeed, unlike the one in the log; "" if nothing does."""
    if if_missing("", module_path, node, LEGACY) and not if_missing(True, is_loaded, node, LEGACY):
        return f"{LEGACY} is installed, and not loaded now"
    version = if_missing("", lambda: information(node, peermem_path(node)).version)
    if version and (numbers(version) >= _FIRST_WITH_TWO_FUNCTIONS) is bool(_ONE_FUNCTION.search(line)):
        return f"the line is not that of nvidia-peermem {version}"
    return ""
