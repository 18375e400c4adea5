"""Mooncake's transfer engine over RDMA, which registers GPU memory in one way only.

Which way was a choice of the build up to 0.3.10, and is one of the environment from 0.3.11 on. Nothing is
tried in its place.
"""

from __future__ import annotations

from gdrkit.facts.wheels import LibraryCopy, wheels
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, fact
from gdrkit.programs.consumer import Consumer, PathSupport
from gdrkit.rules.capabilities import Path

SWITCH = "WITH_NVIDIA_PEERMEM"
SWITCH_SINCE = (0, 3, 11)
DMABUF_BY_DEFAULT = "0.3.11"
"""The only release whose default is dma-buf: 0.3.11-rc1 and 0.3.11.post1 have the other one."""
NEWEST_READ = "0.3.12.post1"
_TRUE = ("1", "true", "on", "yes")
_FALSE = ("0", "false", "off", "no")
"""Source: kvcache-ai/Mooncake mooncake-common/src/environ.cpp, GetBool(), from 0.3.11-rc1 to 0.3.12.post1:
any other value is false too. After that ReadBool() leaves the default for it (3b5a5941)."""


def has_switch(version: str) -> bool:
    """Whether a release reads the setting; older ones have it from their build."""
    return numbers(version) >= SWITCH_SINCE


def only_path(version: str, setting: str | None) -> Path | None:
    """The only path that a release uses for GPU memory; None for one that was not read, unless a setting
    decides that every release reads alike."""
    word, unread = (setting or "").lower(), numbers(version) > numbers(NEWEST_READ)
    if setting is not None and has_switch(version) and (word in (*_TRUE, *_FALSE) or not unread):
        return Path.PEERMEM if word in _TRUE else Path.DMABUF
    if unread:
        return None
    return Path.DMABUF if version == DMABUF_BY_DEFAULT else Path.PEERMEM


@fact
def mooncake_copies(node: Node) -> tuple[LibraryCopy, ...]:
    """Every known Mooncake. Raises EvidenceAbsent if no Python environment has one."""
    return wheels(node, "Mooncake", "mooncake_transfer_engine(?:_efa)?(?:_cuda[0-9]+)?", "mooncake")


MOONCAKE = Consumer(
    name="mooncake",
    title="Mooncake",
    copies=mooncake_copies,
    assumed=NEWEST_READ,
    without="reports a registration error and stops",
    mapped=r"/mooncake/engine\.",
    uses=(PathSupport(path=Path.DMABUF), PathSupport(path=Path.PEERMEM)),
)
