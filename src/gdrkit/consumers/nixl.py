"""NIXL with its UCX back end: its wheels bring a UCX of their own, so that the node's UCX does not count."""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Path, PathSupport
from gdrkit.consumers.ucx import UCX
from gdrkit.facts.wheels import nixl_copies

NIXL = Consumer(
    name="nixl",
    title="NIXL",
    copies=nixl_copies,
    without="copies through host memory or uses TCP without a message, as its UCX does",
    mapped=r"/libnixl[-.]",
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(path=Path.PEERMEM),
        PathSupport(path=Path.STAGED),
        PathSupport(path=Path.SOCKET),
    ),
    switches=UCX.switches,
)
