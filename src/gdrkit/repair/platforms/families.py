"""The families of distributions that gdrkit has commands for."""

from __future__ import annotations

from gdrkit.facts.machine import distribution
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.debian import DEBIAN
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.platforms.rhel import RHEL
from gdrkit.repair.platforms.suse import SUSE

PLATFORMS = (DEBIAN, RHEL, SUSE)


def family(node: Node) -> Platform | None:
    """The family of a node's distribution; None if it is unknown, or boots an image that is not edited."""
    found = if_missing(None, distribution, node)
    if found is None or immutable(node) is not None:
        return None
    return next((row for row in PLATFORMS if row.members & found.family), None)


def setpci(node: Node | None) -> str:
    """The whole path of setpci on the judged node, also where an image of a family is not edited; Debian's
    where its distribution is not known."""
    found = if_missing(None, distribution, node) if node is not None else None
    named = (row.setpci for row in PLATFORMS if found is not None and row.members & found.family)
    return next(named, DEBIAN.setpci)
