"""NIXL with its UCX back end: its wheels bring a UCX of their own, so that the node's UCX does not count."""

from __future__ import annotations

from gdrkit.facts.wheels import LibraryCopy, wheels
from gdrkit.node import Node, fact
from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.programs.ucx.consumer import ANOTHER_NIC, UCX
from gdrkit.rules.capabilities import Path


@fact
def nixl_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known NIXL. Raises EvidenceAbsent if no Python environment has one."""
    return wheels(node, "NIXL", "nixl(?:_cu[0-9]+)?", "nixl", "nixl_cu12", "nixl_cu13")


NIXL = Consumer(
    name="nixl",
    title="NIXL",
    copies=nixl_copies,
    without="copies through host memory or uses TCP without a message, as its UCX does",
    elsewhere=ANOTHER_NIC,
    mapped=r"/libnixl[-.]",
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(path=Path.PEERMEM),
        PathSupport(path=Path.STAGED),
        PathSupport(path=Path.SOCKET),
    ),
    switches=UCX.switches,
)
