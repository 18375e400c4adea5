"""The PCI tree as `lspci -tv` draws it: third-best evidence, for posts without bus numbers."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.facts.commands import LSPCI_TREE
from gdrkit.formats import lspci_tree
from gdrkit.node import Node, fact


class TreePosition(Struct, frozen=True):
    """The position of a function in the tree."""

    root_bus: str  # "0000:15"
    above: tuple[str, ...]  # bridges, root port first


def parse(text: str) -> dict[str, TreePosition]:
    """The position of every function in a drawing, by address. Raises FormatError where there is no tree."""
    return {drawn.address: TreePosition(drawn.root_bus, drawn.above) for drawn in lspci_tree.parse(text)}


@fact
def tree_positions(node: Node) -> dict[str, TreePosition]:
    """The position of every function that `lspci -tv` draws, by address."""
    return parse(node.run(LSPCI_TREE))
