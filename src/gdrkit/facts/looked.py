"""Several sources of one answer, in turn. PURE."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.node import Node

T = TypeVar("T")


def where_looked(*sources: Callable[[], T]) -> T:
    """The first source that somebody looked at decides, even if it says no; the first reason if none was.

    So no program is started on a live machine for what its files deny: the program is denied it, too.
    """
    reason: Lacks | None = None
    for ask in sources:
        try:
            return ask()
        except Lacks as lacks:
            if lacks.missing.why is not Why.NOT_COLLECTED:
                raise
            reason = reason or lacks
    raise reason or LookupError("no source")


def nobody_looked(source: str, ask: str) -> Lacks:
    """That a source is not in the evidence, and the command that would bring it."""
    return Lacks(Missing(source, Why.NOT_COLLECTED, ask))


def handed_over(node: Node, folder: str) -> tuple[str, ...]:
    """Outputs of other programs that came with a node, by path; () if none was handed over.

    Nobody has to bring them, so a folder that is not there is no gap in the evidence.
    """
    try:
        return tuple(f"{folder}/{name}" for name in node.list(folder))
    except Lacks:
        return ()
