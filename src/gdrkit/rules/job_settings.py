"""What rules about settings share: where settings stand, and for whom they speak."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.consumers.consumer import Need
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.environment import Environment, Setting, environment, nccl_sources
from gdrkit.facts.nccl_log import FOLDER
from gdrkit.node import Node
from gdrkit.rules.rule import Failed


def settings_of(node: Node, source: str) -> Environment:
    """What a source sets. A log that was handed over and is none of NCCL's sets nothing.

    Raises EvidenceMissing for a file of the node that nobody looked for.
    """
    try:
        return environment(node, source)
    except EvidenceMissing:
        if source.startswith(FOLDER):
            return Environment(source, "job", ())
        raise


def reach(found: Environment, takes: tuple[Need, ...] | None = None) -> tuple[Need, ...] | None:
    """What a setting takes away on this node: nothing, if it is one user's own."""
    return () if found.scope == "user" else takes


def first_wrong(
    node: Node, name: str, wrong: Callable[[Environment, Setting], Failed | None]
) -> Failed | None:
    """The first source of NCCL's whose setting of that name is wrong; None if none is.

    Raises EvidenceMissing if none of those seen is wrong and a file of the node was not looked for. What the
    node sets comes before what a user or a job sets.
    """
    reason: EvidenceMissing | None = None
    for source in nccl_sources(node):
        try:
            found = settings_of(node, source)
        except EvidenceMissing as lacks:
            reason = reason or lacks
            continue
        setting = found.get(name)
        failed = wrong(found, setting) if setting else None
        if failed is not None:
            return failed
    if reason is not None:
        raise reason
    return None
