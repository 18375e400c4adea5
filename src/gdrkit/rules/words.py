"""Lines that programs print, and what can cause them. Said by the loader, heard by explain: one table. PURE."""

from __future__ import annotations

from gdrkit.node import Node
from gdrkit.rules.rule import Failed


def heard(node: Node, code: str, subject: object) -> Failed | None:
    """What the node's own logs say of this code and subject, in words that have one meaning."""
    return None
