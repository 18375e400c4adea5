"""The PCI tree as `lspci -tv` draws it.

Third-best evidence, for posts without bus numbers.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.commands import LSPCI_TREE
from gdrkit.formats import lspci_tree
from gdrkit.node import Node, fact


class TreePosition(Struct, frozen=True):
    """Where a function hangs."""

    root_bus: str  # "0000:15"
    above: tuple[str, ...]  # bridges, root port first


def parse(text: str) -> dict[str, TreePosition]:
    """The place of every function drawn. Raises FormatError where there is no tree."""
    return {drawn.address: TreePosition(drawn.root_bus, drawn.above) for drawn in lspci_tree.parse(text)}


@fact
def drawn_places(node: Node) -> dict[str, TreePosition]:
    """The place of every function that `lspci -tv` draws."""
    return parse(node.run(LSPCI_TREE))
