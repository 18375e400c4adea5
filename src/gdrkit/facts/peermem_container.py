"""What the GPU Operator's nvidia-peermem container said: it waits, it runs modprobe once, and it ends.

Source: gpu-driver-container, reload_nvidia_peermem() in each distribution's nvidia-driver script. Its log is
handed over, or lies in the node's own /var/log/pods.
"""

from __future__ import annotations

import enum
import re

from msgspec import Struct

from gdrkit.evidence import Lacks, Missing, Why
from gdrkit.facts.kubernetes import pod_logs
from gdrkit.node import Node, fact


class Kind(enum.StrEnum):
    """What a line of the container says."""

    WAITING = "waiting"
    LOADED = "loaded"
    ALREADY_LOADED = "already-loaded"
    FAILED = "failed"
    INVALID_ARGUMENT = "invalid-argument"
    NOT_FOUND = "not-found"
    NOT_LOADED = "not-loaded"
    KEY_REJECTED = "key-rejected"
    DISAGREES = "disagrees"


LINES: tuple[tuple[Kind, str], ...] = (
    (Kind.WAITING, "waiting for mellanox ofed and nvidia drivers to be installed"),
    (Kind.LOADED, "successfully loaded nvidia-peermem module"),
    (Kind.ALREADY_LOADED, "nvidia-peermem module already loaded"),
    (Kind.FAILED, "failed to load nvidia-peermem module"),
    (Kind.INVALID_ARGUMENT, r"could not insert 'nvidia[-_]peermem': Invalid argument"),
    (Kind.NOT_FOUND, r"FATAL: Module nvidia[-_]peermem not found in directory \S+"),
    (Kind.NOT_LOADED, "nvidia-peermem module is not loaded"),
    (Kind.KEY_REJECTED, r"could not insert 'nvidia[-_]peermem': Key was rejected by service"),
    (
        Kind.DISAGREES,
        r"disagrees about version of symbol (?:ib_(?:un)?register_peer_memory_client|nvidia_p2p_\w+)",
    ),
)


class Event(Struct, frozen=True):
    """One line that the container is known to print."""

    kind: Kind
    text: str
    source: str
    line: int


@fact
def events(node: Node) -> tuple[Event, ...]:
    """Its lines in order. Raises Lacks if no log of it came with the node."""
    found: list[Event] = []
    for source in pod_logs(node):
        found += parse(node.text(source), source)
    if not found:
        raise Lacks(Missing("nvidia-peermem-ctr", Why.NOT_COLLECTED, ASK))
    return tuple(found)


ASK = "kubectl logs -n gpu-operator -l app=nvidia-driver-daemonset -c nvidia-peermem-ctr --tail=-1"


def parse(text: str, source: str) -> list[Event]:
    """The lines that are known, whatever stamps the kubelet or kubectl set before them."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for kind, pattern in LINES:
            match = re.search(pattern, line)
            if match:
                found.append(Event(kind, match[0], source, number))
                break
    return found


def last_attempt(said: tuple[Event, ...]) -> tuple[Event, ...]:
    """What was said since the container last started over: after the last success, or the last failure
    before it."""
    start = 0
    for index, event in enumerate(said[:-1]):
        if event.kind in (Kind.LOADED, Kind.ALREADY_LOADED, Kind.FAILED):
            start = index + 1
    return said[start:]
