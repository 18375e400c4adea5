"""A measurement between two other nodes: one listens, the other connects, and this process gives both the
key.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from gdrkit.agent.pipes import ready
from gdrkit.transport.errors import TimedOut, TransportError
from gdrkit.transport.handshake import generate_key
from gdrkit.transport.measure import remote
from gdrkit.transport.measure.job import MeasureEnd
from gdrkit.transport.measure.peer import FAILED, PeerTask
from gdrkit.transport.measure.sweep import SweepPoint

if TYPE_CHECKING:
    import subprocess

LISTENING, CONNECTING = 0, 1
END_SECONDS = 3.0
"""How long a node's command may take to end: its program ends at once, and srun(1) then cleans up."""
_OTHER_SECONDS = 0.5
"""How long the other node may take to see that its peer is lost, and to say why."""
_SERVER = 2
"""The word of SSH_CONNECTION with the address at which the node was reached: sshd(8)."""
_NOT_OURS = "it sent something else than gdrkit's answer"
_SIDES = ("the listening node", "the connecting node")


class EndFailed(TransportError):
    """One of the two nodes did not take part, by itself: `end` is LISTENING or CONNECTING, `code` the exit
    code of its command, None while that still ran, and `lines` the last ones of its errors."""

    def __init__(self, end: int, code: int | None, lines: Sequence[str]) -> None:
        super().__init__(lines[-1] if lines else f"exit code {code}")
        self.end, self.code, self.lines = end, code, tuple(lines)


def between(
    commands: tuple[Sequence[str], Sequence[str]],
    path: str,
    end: MeasureEnd,
    size_bytes: int,
    *,
    address: str = "",
    network: str = "",
    timeout_s: float,
    started: remote.Started = lambda child: None,
) -> SweepPoint:
    """Measure one path and size between the nodes on which two commands run a shell; the first one listens.

    It listens on its address in `network`, else on `address`, else on the one at which ssh reached it.
    `address` may be a name. Raises EndFailed, TransportError and OSError.
    """
    deadline = time.monotonic() + timeout_s
    if address:
        address = _resolved(address)
    with ExitStack() as stack:
        ends = [stack.enter_context(remote.process(command, END_SECONDS, started)) for command in commands]
        own = [_introduced(number, child, deadline) for number, child in enumerate(ends)]
        if not network and not address:
            address = _server_address(own[LISTENING])

        def tell(number: int, host: str, port: int) -> None:
            role = "connect" if number else "listen"
            task = PeerTask(
                host, port, key, path, [size_bytes], *end,
                wait_s=_left_s(deadline), pair=role, network=network,
            )  # fmt: skip
            remote.tell(ends[number], task.line(), _left_s(deadline))

        key = generate_key().hex()
        tell(LISTENING, address, 0)
        host, port = _listens_on(_line(ends, deadline), address, network)
        tell(CONNECTING, host, port)
        try:
            return _point(_line(ends, deadline), size_bytes)
        except EndFailed:
            raise
        except TransportError as error:  # equal for pairs that fail alike
            raise TransportError(str(error).replace(f"{host}:{port}", "its peer")) from None


def _resolved(name: str) -> str:
    """The address of a name, as this machine resolves it. Raises TransportError."""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise TransportError(f"no address for {name}: {error.strerror}") from None


def _left_s(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _introduced(number: int, child: subprocess.Popen[bytes], deadline: float) -> list[str]:
    """The words of a node's SSH_CONNECTION. Raises EndFailed."""
    try:
        return remote.introduce(child, _left_s(deadline))
    except remote.NotStarted as error:
        raise EndFailed(number, child.poll(), error.lines) from None
    except TimedOut:  # without its seconds, so that it is equal for nodes that hang alike
        raise EndFailed(number, None, ["it did not answer in time"]) from None
    except TransportError as error:
        raise EndFailed(number, None, [str(error).replace("the other node", "it")]) from None


def _server_address(words: Sequence[str]) -> str:
    """Where the listening node was reached. Raises EndFailed."""
    try:
        return remote.address_of(words[_SERVER] if len(words) > _SERVER else " ".join(words))
    except TransportError as error:
        raise EndFailed(LISTENING, None, [str(error).replace("the other node", "it")]) from None


def _line(ends: Sequence[subprocess.Popen[bytes]], deadline: float) -> str:
    """The next line of the listening node. Raises EndFailed, and TransportError if one of them fails."""
    listening, connecting = ends
    assert listening.stdout and connecting.stdout
    watched = [listening.stdout, connecting.stdout]
    while True:
        found = ready(watched, _left_s(deadline))
        if not found:
            raise TimedOut("timed out")
        if listening.stdout in found:
            line = remote.line_of(listening, _left_s(deadline))
            if line is None:
                raise _failure(ends, LISTENING)
            return line
        os.read(connecting.stdout.fileno(), 1)  # it writes nothing more: it has ended
        watched.remove(connecting.stdout)
        if connecting.wait(END_SECONDS):
            raise _failure(ends, CONNECTING)


def _failure(ends: Sequence[subprocess.Popen[bytes]], first: int) -> TransportError:
    """What the nodes say of why they ended, of which one ended first; the other may still run.

    Raises EndFailed if one ended without a word of our program."""
    said = []
    for number, child in enumerate(ends):
        lines = remote.last_lines(child, remote.ENDED_SECONDS if number == first else _OTHER_SECONDS)
        if own := next((line for line in lines if line.startswith(FAILED)), ""):
            said.append(f"{_SIDES[number]}: {own.removeprefix(FAILED)}")
        elif code := child.poll():
            raise EndFailed(number, code, lines)
    return TransportError("; ".join(said) or "both nodes ended without a result")


def _listens_on(line: str, address: str, network: str) -> tuple[str, int]:
    """Where the other node is to connect: the node chooses its port, and its address only in a network.

    Raises EndFailed."""
    try:
        host, port = json.loads(line)
        if not network:
            host = address
        elif ipaddress.ip_address(host) not in ipaddress.ip_network(network):
            raise ValueError
        if not isinstance(port, int) or not 0 < port < 1 << 16:
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise EndFailed(LISTENING, None, [_NOT_OURS]) from None
    return str(host), port


def _point(line: str, size_bytes: int) -> SweepPoint:
    """The result that the listening node sent. Raises EndFailed."""
    try:
        (numbers,) = json.loads(line)
        point = SweepPoint(*numbers)
        if point.size_bytes != size_bytes or not all(0 < float(number) < math.inf for number in point[1:6]):
            raise ValueError
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise EndFailed(LISTENING, None, [_NOT_OURS]) from None
    return point
