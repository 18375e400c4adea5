"""Programs that register memory themselves with libibverbs, as perftest does. PURE."""

from __future__ import annotations

from gdrkit.consumers.consumer import Consumer, Path, PathUse

VERBS = Consumer(
    name="verbs",
    title="libibverbs",
    uses=(
        PathUse(path=Path.DMABUF),
        PathUse(path=Path.PEERMEM),
        PathUse(path=Path.HOST_MAPPED),
        PathUse(path=Path.STAGED),
    ),
    common=True,
)
