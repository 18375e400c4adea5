"""All messages of all programs and the one matcher. Who needs one program's asks its file."""

from __future__ import annotations

import functools

from gdrkit.messages import driver, kernel, modprobe, nccl, operator, perftest, verbs
from gdrkit.messages.message import Match, MessageMatcher

CATALOGUE = (
    *perftest.ROWS, *verbs.ROWS, *driver.ROWS, *operator.ROWS, *modprobe.ROWS, *kernel.ROWS,
    *modprobe.LOADERS, *nccl.ROWS,
)  # fmt: skip
"""All rows. The first that a line holds takes it."""


def match(text: str, number: int = 0) -> Match | None:
    """The row that a line holds, whatever stands before it; None if it holds none."""
    return _matcher().match(text, number)


@functools.cache
def _matcher() -> MessageMatcher:
    return MessageMatcher(CATALOGUE)
