"""A message about something other than GPUDirect RDMA, or less telling than it seems."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Kind = Literal["failure", "follows", "harmless"]
"""A failure with this one meaning; one that follows from an error elsewhere; no failure."""


class OtherMessage(Struct, frozen=True):
    """A message, what it means, and what to do."""

    word: str  # that every such line contains
    pattern: str
    means: str
    todo: str
    source: str
    kind: Kind = "failure"
    denies: tuple[str, ...] = ()  # codes that people take the line for
