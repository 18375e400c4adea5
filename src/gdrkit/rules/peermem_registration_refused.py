"""nvidia-peermem whose registration the RDMA core turned down."""

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
    """The RDMA core refused nvidia-peermem as a client, so its init returns -EINVAL.

    Cost: The peermem path is closed.

    How to tell: modprobe says `Invalid argument`, and the kernel log holds `nvidia-peermem ... error while
    registering traditional client` or `... nc client`.

    What to do: `lsmod | grep nv_peer_mem`; if it is loaded, stop its service, unload it and remove its
    package, then `modprobe nvidia-peermem`. If it is not, the RDMA stack and the driver are of different
    times: rebuild the driver against the stack that is loaded.

    Why: The core returns no handle if a client of the same name, nv_mem, is there already (the older
    nv_peer_mem registers under it), if a callback is missing that it insists on, or if it has no memory.

    Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c, nv_mem_legacy_client_init()
    and nv_mem_nc_client_init(); MLNX_OFED drivers/infiniband/core/peer_mem.c.
    """
    if canonical(module) != PEERMEM:
        return NotApplicable("only nvidia-peermem registers")
    if is_loaded(node, PEERMEM):
        return Passed("it is loaded, so it is registered")
    try:
        line = last_line(node, REFUSED)
    except EvidenceMissing as lacks:  # a refusal is rare, and loading will tell
        node.cite("no refusal is known of", confidence=Confidence.LIKELY)
        return Passed("no refusal is known of", (lacks.missing,))
    if line is None:
        return Passed("no refusal in this boot's log")
    return Failed(seen=line.text, expected="a registered client", subject=PEERMEM)
