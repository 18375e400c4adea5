"""Evidence that nobody has to bring, and evidence that nobody brought. PURE."""

from __future__ import annotations

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.node import Node, if_missing


def nobody_looked(source: str, ask: str) -> Lacks:
    """That a source is not in the evidence, and the command that would bring it."""
    return Lacks(Missing(source, Why.NOT_COLLECTED, ask))


def handed_over(node: Node, folder: str) -> tuple[str, ...]:
    """Outputs of other programs that came with a node, by path; () if none was handed over.

    Nobody has to bring them, so a folder that is not there is no gap in the evidence.
    """
    return if_missing((), lambda: tuple(f"{folder}/{name}" for name in node.list(folder)))
