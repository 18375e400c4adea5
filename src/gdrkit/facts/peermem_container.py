"""The log of the GPU Operator's nvidia-peermem container, which waits, runs modprobe once, and ends.

Source: gpu-driver-container, reload_nvidia_peermem() in each distribution's nvidia-driver script. The log is
supplied with the node or is in its /var/log/pods.
"""

from __future__ import annotations

import enum
import re

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kubernetes import pod_logs
from gdrkit.node import Node, fact


class ContainerEventKind(enum.StrEnum):
    """What a line of the container's log reports."""

    WAITING = "waiting"
    LOADED = "loaded"
    ALREADY_LOADED = "already-loaded"
    FAILED = "failed"
    INVALID_ARGUMENT = "invalid-argument"
    NOT_FOUND = "not-found"
    NOT_LOADED = "not-loaded"
    KEY_REJECTED = "key-rejected"
    DISAGREES = "disagrees"


LINES: tuple[tuple[ContainerEventKind, str], ...] = (
    (ContainerEventKind.WAITING, "waiting for mellanox ofed and nvidia drivers to be installed"),
    (ContainerEventKind.LOADED, "successfully loaded nvidia-peermem module"),
    (ContainerEventKind.ALREADY_LOADED, "nvidia-peermem module already loaded"),
    (ContainerEventKind.FAILED, "failed to load nvidia-peermem module"),
    (ContainerEventKind.INVALID_ARGUMENT, r"could not insert 'nvidia[-_]peermem': Invalid argument"),
    (ContainerEventKind.NOT_FOUND, r"FATAL: Module nvidia[-_]peermem not found in directory \S+"),
    (ContainerEventKind.NOT_LOADED, "nvidia-peermem module is not loaded"),
    (ContainerEventKind.KEY_REJECTED, r"could not insert 'nvidia[-_]peermem': Key was rejected by service"),
    (
        ContainerEventKind.DISAGREES,
        r"disagrees about version of symbol (?:ib_(?:un)?register_peer_memory_client|nvidia_p2p_\w+)",
    ),
)
SHORTEST_LINE = len("nvidia-peermem module is not loaded")
"""A hostile log has a million shorter lines."""


class ContainerEvent(Struct, frozen=True):
    """One known line in the container's log."""

    kind: ContainerEventKind
    text: str
    source: str
    line: int


ASK = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1"


@fact
def events(node: Node) -> tuple[ContainerEvent, ...]:
    """The known lines in order. Raises EvidenceMissing if there is no log of the container."""
    found: list[ContainerEvent] = []
    for source in pod_logs(node):
        found += parse(node.text(source), source)
    if not found:
        raise EvidenceMissing(Missing("nvidia-peermem-ctr", MissingReason.NOT_COLLECTED, ASK))
    return tuple(found)


def parse(text: str, source: str) -> list[ContainerEvent]:
    """The known lines of a log, with or without the time stamps of the kubelet or kubectl."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for kind, pattern in LINES if len(line) >= SHORTEST_LINE else ():
            match = re.search(pattern, line)
            if match:
                found.append(ContainerEvent(kind, match[0], source, number))
                break
    return found


def last_attempt(lines: tuple[ContainerEvent, ...]) -> tuple[ContainerEvent, ...]:
    """The lines since the container last restarted, which it does after each success or failure."""
    start = 0
    for index, event in enumerate(lines[:-1]):
        if event.kind in (
            ContainerEventKind.LOADED,
            ContainerEventKind.ALREADY_LOADED,
            ContainerEventKind.FAILED,
        ):
            start = index + 1
    return lines[start:]
