"""Evidence that nobody has to bring, and evidence that nobody brought."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node, if_missing


def not_collected(source: str, ask: str) -> EvidenceMissing:
    """That a source is not in the evidence, and the command that would bring it."""
    return EvidenceMissing(Missing(source, MissingReason.NOT_COLLECTED, ask))


def supplied_files(node: Node, folder: str) -> tuple[str, ...]:
    """Outputs of other programs that came with a node, by path; () if none was handed over.

    Nobody has to bring them, so a folder that is not there is no gap in the evidence.
    """
    return if_missing((), lambda: tuple(f"{folder}/{name}" for name in node.list(folder)))
