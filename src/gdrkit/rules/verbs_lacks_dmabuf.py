"""A libibverbs that cannot register dma-buf memory regions."""

from __future__ import annotations

from gdrkit.facts.libraries import DMABUF_CALL, libibverbs, verbs_has_dmabuf
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import VERBS_PROBE, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DMABUF, Failed, Layer, Outcome, Passed, SettledBy, rule, the_node


@rule(
    "verbs-lacks-dmabuf",
    Layer.RDMA,
    per=the_node,
    takes=(DMABUF,),
    reported_by=(DecidingCommand(VERBS_PROBE, "no ibv_reg_dmabuf_mr in the libibverbs that is loaded"),),
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="Programs on this node cannot register a dma-buf, even if the kernel can.",
    references=("https://man7.org/linux/man-pages/man3/ibv_reg_mr.3.html",),
)
def verbs_lacks_dmabuf(node: Node, _: str) -> Outcome:
    """The libibverbs that programs load here has no ibv_reg_dmabuf_mr.

    Cost: NCCL treats the missing symbol as a NIC without dma-buf, and does not report it.

    How to tell: `nm -D <libibverbs.so.1> | grep ibv_reg_dmabuf_mr` prints nothing. If the library itself was
    not collected: its version is older than rdma-core 34.

    What to do: Install a newer rdma-core or DOCA-OFED; in containers, use a newer base image.

    Why: The function was added in rdma-core 34. Old distributions and the user space of older OFED releases
    do not have it. Containers have their own libibverbs: what is true of the host is not true of an image.

    Source: rdma-core libibverbs/libibverbs.map.in, IBVERBS_1.12 at v34.0; NCCL src/transport/net_ib/gdr.cc.
    """
    if verbs_has_dmabuf(node):
        return Passed(f"it offers {DMABUF_CALL}")
    return Failed(seen=f"{_library(node)} has no {DMABUF_CALL}", expected=DMABUF_CALL, subject="libibverbs")


def _library(node: Node) -> str:
    """The library's path; its name if only its package is known."""
    return if_missing("libibverbs", lambda: libibverbs(node).path)
