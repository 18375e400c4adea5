"""All messages, and the matcher for them. For one program, import its module instead."""

from __future__ import annotations

import functools

from gdrkit.messages import (
    driver,
    faults,
    gdrcopy,
    gin,
    jobs,
    kernel,
    libraries,
    modprobe,
    mooncake,
    nccl,
    nccl_networks,
    nvshmem,
    ofi,
    operator,
    perftest,
    system,
    ucx,
    verbs,
)
from gdrkit.messages.message import Match, MessageMatcher

CATALOGUE = (
    *faults.ROWS, *jobs.ROWS,
    *perftest.ROWS, *ucx.ROWS, *nvshmem.ROWS, *mooncake.ROWS, *ofi.ROWS, *gin.ROWS, *gdrcopy.ROWS,
    *verbs.ROWS, *driver.ROWS, *operator.ROWS, *modprobe.ROWS, *kernel.ROWS, *modprobe.LOADERS, *nccl.ROWS,
    *nccl_networks.ROWS, *system.ROWS,
    *libraries.ROWS,
)  # fmt: skip
"""All rows. The first one that a line contains is its match; rows of one program precede general ones."""


def match(text: str, number: int = 0) -> Match | None:
    """The first message that a line contains, after any text; None if it contains none."""
    return _matcher().match(text, number)


@functools.cache
def _matcher() -> MessageMatcher:
    return MessageMatcher(CATALOGUE)
