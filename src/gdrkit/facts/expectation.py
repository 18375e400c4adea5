"""What the user expects of this machine (`gdr doctor --expect`)."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats.expectation import Expectation
from gdrkit.node import Node, fact


class Supplied(Struct, frozen=True):
    """An expectation, and the file that it is from; "" without one, which expects nothing."""

    file: str = ""
    content: Expectation = Expectation()


@fact
def expectation(node: Node) -> Supplied:
    """What the user expects. Set by `Node.supply`; nothing is expected by default."""
    return Supplied()
