"""Copies of libibverbs that programs may load instead of the system's."""

from __future__ import annotations

from gdrkit.facts.libraries import DMABUF_CALL, Library, has_dmabuf, other_libibverbs
from gdrkit.node import Node
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, Outcome, Passed, SettledBy, Status, rule


@rule(
    "verbs-library-old",
    Layer.LIBRARY,
    per=other_libibverbs,
    default_status=Status.WARNING,
    remedies=(RemedyName.UPGRADE_RDMA_CORE,),
    settled_by=SettledBy.IMAGE,
    cost="A program that loads this copy has no dma-buf, whatever the system's own can.",
    references=("https://man7.org/linux/man-pages/man8/ld.so.8.html",),
)
def verbs_library_old(node: Node, library: Library) -> Outcome:
    """A second libibverbs on this node is from before dma-buf.

    Cost: The program that loads it takes the NIC for one without dma-buf, and says nothing.

    How to tell: A libibverbs.so.1 in a vendor's folder, without ibv_reg_dmabuf_mr among its dynamic symbols.

    What to do: Update or remove the copy, or take its folder out of LD_LIBRARY_PATH. `ldd` on the program
    tells which one it loads.

    Why: HPC-X, older OFED releases and Python or Conda environments bring libraries of their own, and
    LD_LIBRARY_PATH puts them first.

    Source: rdma-core libibverbs/libibverbs.map.in, IBVERBS_1.12; ld.so(8).
    """
    if has_dmabuf(node, library.path):
        return Passed(f"it offers {DMABUF_CALL}")
    return Failed(seen=f"no {DMABUF_CALL}", expected=DMABUF_CALL, subject=library.path)
