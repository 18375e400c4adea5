"""Evidence supplied with a node, such as logs of jobs, and the error for evidence that was not collected."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node, if_missing


def not_collected(source: str, ask: str) -> EvidenceMissing:
    """The error for a source that is not in the evidence; `ask` is the command that shows it."""
    return EvidenceMissing(Missing(source, MissingReason.NOT_COLLECTED, ask))


def supplied_files(node: Node, folder: str) -> tuple[str, ...]:
    """Paths of other programs' outputs supplied with a node; () if there are none, since they are
    optional."""
    return if_missing((), lambda: tuple(f"{folder}/{name}" for name in node.list(folder)))
