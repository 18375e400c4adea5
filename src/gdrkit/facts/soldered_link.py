"""The PCIe links of a NIC that is soldered on, and so has no slot that explains fewer lanes."""

from __future__ import annotations

from gdrkit.facts.gpu import has_gb10
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.facts.pci_registers import link
from gdrkit.node import Node, fact


@fact
def full_link(node: Node, address: str) -> str:
    """What the NIC of a Spark can have, `32 GT/s x4`, where its link has less; "" otherwise.

    Both links of a Spark have four lanes (DGX Spark User Guide, hardware overview). The NIC shows that it
    can have them where the port above it has two: forums.developer.nvidia.com, topic 367853."""
    if not has_gb10(node):
        return ""
    own = link(node, address)
    full = raw_gbit_per_s(own.max_gt_per_s, own.max_width)
    if raw_gbit_per_s(own.current_gt_per_s, own.current_width) >= full:
        return ""
    return f"{own.max_gt_per_s:g} GT/s x{own.max_width}"
