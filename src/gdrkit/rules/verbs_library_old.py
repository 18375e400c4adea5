"""Copies of libibverbs that programs may load instead of the system's."""

from __future__ import annotations

from gdrkit.facts.libraries import DMABUF_CALL, Library, has_dmabuf, other_libibverbs
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, SettledBy, Status, rule


@rule(
    "verbs-library-old",
    Layer.LIBRARY,
    per=other_libibverbs,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            "nm -D libibverbs.so.1 | grep ibv_reg_dmabuf_mr", "nothing, for the copy that the program loads"
        ),
    ),
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="A program that loads this copy cannot use dma-buf, even if the system's own libibverbs can.",
    references=("https://man7.org/linux/man-pages/man8/ld.so.8.html",),
)
def verbs_library_old(node: Node, library: Library) -> Outcome:
    """A second libibverbs on this node is too old for dma-buf.

    Cost: A program that loads it treats the NIC as one without dma-buf, and does not report it.

    How to tell: A vendor's folder has a libibverbs.so.1 without the function:
    `nm -D <file> | grep ibv_reg_dmabuf_mr` prints nothing.

    What to do: Update or remove the copy, or remove its folder from LD_LIBRARY_PATH. `ldd <program>` shows
    which copy the program loads.

    Why: HPC-X, older OFED releases and Python or Conda environments include their own libraries, and
    LD_LIBRARY_PATH puts them first.

    Source: rdma-core libibverbs/libibverbs.map.in, IBVERBS_1.12; ld.so(8).
    """
    if has_dmabuf(node, library.path):
        return Passed(f"it offers {DMABUF_CALL}")
    return Failed(seen=f"no {DMABUF_CALL}", expected=DMABUF_CALL, subject=library.path)
