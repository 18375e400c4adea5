"""The RDMA core refused to register nvidia-peermem."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.modules import PEERMEM, is_loaded
from gdrkit.formats.module_name import canonical
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DMESG, LSMOD, DecidingCommand
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import ADDRESS, Failed, Layer, NotApplicable, Outcome, Passed, rule
from gdrkit.rules.stage import LoadPosition, Stage

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
    `nvidia-peermem ... error while registering traditional client` or `... nc client`.

    What to do: Run `lsmod | grep nv_peer_mem`.

    1. If it is loaded, stop its service, unload it and remove its package, then run
       `modprobe nvidia-peermem`.
    2. If it is not loaded, the RDMA stack and the driver do not match: rebuild the driver against the RDMA
       stack that is loaded.

    Why: The RDMA core returns no handle if a client with the same name, nv_mem, is already registered (the
    older nv_peer_mem uses this name), if a mandatory callback is missing, or if it is out of memory.

    Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_legacy_client_init()
    and nv_mem_nc_client_init(); MLNX_OFED drivers/infiniband/core/peer_mem.c.
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("not nvidia-peermem")
    if is_loaded(node, PEERMEM):
        return Passed("it is loaded, so it is registered")
    try:
        line = last_line(node, REFUSED)
    except EvidenceMissing as error:  # a refusal is rare, and an attempt to load shows it
        node.cite("no refusal was seen", confidence=Confidence.LIKELY)
        return Passed("no refusal was seen", (error.missing,))
    if line is None:
        return Passed("no refusal in the log of this boot")
    return Failed(seen=line.text, expected="a registered client", subject=PEERMEM)
