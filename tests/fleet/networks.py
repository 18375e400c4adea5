"""Nodes with network interfaces of their own: namespaces on a bridge, whose rate the kernel limits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest

from tests.system_programs import how_to_install, missing, program

NETWORK = "10.213.8.0/24"
FAST_MBIT_PER_S, SLOW_MBIT_PER_S = 32, 8
"""Slow enough that the time of a message is that of the link, also on busy cores."""
BURST = "4k"
"""Bytes that pass at once after a pause. Were they half of a message, busy cores would make a link fast."""
needs_networks = pytest.mark.skipif(
    os.geteuid() != 0 or bool(missing("ip", "tc", "nsenter")),
    reason=f"needs root, ip, tc and nsenter: {how_to_install('ip', 'nsenter')}",
)


@contextmanager
def networks(rates: Mapping[str, int]) -> Iterator[dict[str, str]]:
    """The words that run a command in the namespace of each node; `rates` are in Mbit/s, in both directions.

    A node's address in NETWORK ends with its place, from 1. All is removed at the end."""
    mark = f"gdr{os.getpid() % 10_000}"
    bridge, spaces = f"{mark}-hub", {node: f"{mark}-{node}" for node in rates}
    with ExitStack() as undo:
        _ip("netns", "add", bridge)
        undo.callback(_ip, "netns", "del", bridge)
        _ip("-n", bridge, "link", "add", "hub", "type", "bridge")
        _ip("-n", bridge, "link", "set", "hub", "up")
        for number, (node, space) in enumerate(spaces.items(), 1):
            _ip("netns", "add", space)
            undo.callback(_ip, "netns", "del", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("link", "add", "netns", bridge, "name", node, "type", "veth", "peer", "eth0", "netns", space)
            _ip("-n", bridge, "link", "set", node, "master", "hub", "up")
            _ip("-n", space, "addr", "add", f"10.213.8.{number}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            for where, port in ((space, "eth0"), (bridge, node)):
                limit = ["rate", f"{rates[node]}mbit", "burst", BURST, "latency", "400ms"]
                _run("tc", "-n", where, "qdisc", "add", "dev", port, "root", "tbf", *limit)
        yield {node: f"nsenter --net=/run/netns/{space}" for node, space in spaces.items()}


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(name: str, *words: str) -> None:
    subprocess.run([program(name), *words], check=True, capture_output=True)
