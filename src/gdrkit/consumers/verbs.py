"""Programs that register memory themselves with libibverbs, as perftest does."""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Path, PathSupport

VERBS = Consumer(
    name="verbs",
    title="libibverbs",
    without="gets an error when it registers GPU memory, and decides itself",
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(path=Path.PEERMEM),
        PathSupport(path=Path.HOST_MAPPED),
        PathSupport(path=Path.STAGED),
    ),
    common=True,
)
