"""A measurement between this process and another one, on this node or on another node over ssh."""

from __future__ import annotations

import io
import ipaddress
import os
import select
import shlex
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from gdrkit.agent.launch import isolated, program_path, ssh
from gdrkit.agent.pipes import end_group, receive, send
from gdrkit.transport import Connection, TransportError, generate_key, listen
from gdrkit.transport.measure.peer import PeerTask
from gdrkit.transport.measure.sweep import SweepMemory, SweepPoint, lead

CONNECT_SECONDS = 60.0
_END_SECONDS = 10.0
_ANSWER_BYTES, _ERROR_BYTES, _WORDS_BYTES = 512, 1 << 16, 300
"""The most that is read of the other node's first line and of its errors, and that is quoted of one."""

_SENT = ("agent", "agent/native", "transport", "transport/native", "transport/measure")
_REMOTE = """import os, sys
if sys.version_info < (3, 9):
    sys.exit("gdrkit needs Python 3.9 or later on this node; found %d.%d" % sys.version_info[:2])
size = int(sys.stdin.buffer.readline())
memory = os.memfd_create("gdrkit")
os.write(1, (os.environ.get("SSH_CONNECTION", "") + "\\n").encode())
left = size
while left:
    piece = sys.stdin.buffer.read(left)
    if not piece: sys.exit("the ssh connection broke")
    os.write(memory, piece)
    left -= len(piece)
sys.path.insert(0, "/proc/self/fd/%d" % memory)
from gdrkit.transport.measure.peer import main
sys.exit(main())
"""
"""The program for the other node. It keeps gdrkit in memory that is freed with the process; it writes no
file.
"""


class MeasureEnd(NamedTuple):
    """One end of a measurement: a CUDA ordinal or None for host memory, and an RDMA device or None."""

    gpu: int | None = None
    device: str | None = None


def measure(
    path: str,
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    *,
    host: str | None = None,
    address: str | None = None,
    on_point: Callable[[SweepPoint], Any] = lambda point: None,
) -> list[SweepPoint]:
    """Measure one path with every size. `host` is the ssh destination; None is this node.

    `address` is this node's address to listen on; by default, with `host`, the one that ssh connected from.
    `on_point` is called after each size. Raises TransportError with the other side's error.
    """
    with session(path, here, there, sizes, host=host, address=address) as (connection, _):
        return lead(connection, SweepMemory(here.gpu), sizes, on_point)


@contextmanager
def session(
    path: str,
    here: MeasureEnd,
    there: MeasureEnd,
    sizes: tuple[int, ...],
    *,
    rounds: tuple[int, ...] = (),
    host: str | None = None,
    address: str | None = None,
) -> Iterator[tuple[Connection, int]]:
    """A connection to the other process, which runs the follower's side, and its process ID. As `measure`;
    with `rounds` the other process follows a proof.
    """
    key = generate_key()
    with _other(host) as (process, client_address):
        own_address = address or client_address or "127.0.0.1"
        with listen(own_address, key=key, gpu=here.gpu, device=here.device, paths=(path,)) as listener:
            task = PeerTask(
                *listener.address, key.hex(), path, list(sizes), there.gpu, there.device, list(rounds)
            )
            _tell(process, task.line())
            try:
                with listener.accept(CONNECT_SECONDS) as connection:
                    yield connection, process.pid
            except TransportError as error:
                raise TransportError(f"{error}{_last_words(process)}") from None


@contextmanager
def _other(host: str | None) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The other process, and this node's address as the other node sees it. The process ends with the
    block.
    """
    if host is None:
        command = isolated("gdrkit.transport.measure.peer")
    else:
        # The program is not secret, so it is an argument; its input, with the key, goes over standard input.
        command = ssh(host, f"exec python3 -I -c {shlex.quote(_REMOTE)}")
    try:
        command[0] = program_path(command[0])
    except FileNotFoundError:
        raise TransportError(f"{command[0]} is not installed here") from None
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process, _introduce(process) if host is not None else ""
    finally:
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:  # it ended first
                    continue
        end_group(process, _END_SECONDS)


def _introduce(process: subprocess.Popen[bytes]) -> str:
    """Send gdrkit; returns the address that the other node sees us connect from. Raises TransportError."""
    packed = _packed()
    _tell(process, b"%d\n" % len(packed) + packed)
    assert process.stdout
    try:
        answer = receive(process.stdout, _ANSWER_BYTES, time.monotonic() + CONNECT_SECONDS, until=b"\n")
    except TimeoutError:
        raise TransportError(f"the other node did not answer within {CONNECT_SECONDS:g} s") from None
    except OverflowError:
        raise TransportError("the other node sent something else than gdrkit's answer") from None
    words = answer.decode("ascii", "replace").split()
    if not words and not answer:
        raise TransportError(f"the other node did not start Python{_last_words(process)}")
    if not words:
        return ""
    return _address(words[0])  # sshd(8), SSH_CONNECTION: the client's address comes first


def _address(word: str) -> str:
    """The address that the other node names. Raises TransportError for what cannot be one."""
    try:
        found = ipaddress.ip_address(word.partition("%")[0])
    except ValueError:
        raise TransportError(f"the other node sent no address: {word[:60]!r}") from None
    if found.is_unspecified or found.is_multicast:
        raise TransportError(f"not an address that this node connects from: {word}")
    return word


def _tell(process: subprocess.Popen[bytes], content: bytes) -> None:
    """Write to the other process. Raises TransportError if it has ended, or does not read in time."""
    assert process.stdin
    try:
        send(process.stdin, content, time.monotonic() + CONNECT_SECONDS)
    except BrokenPipeError:
        raise TransportError(f"the other node did not start Python{_last_words(process)}") from None
    except TimeoutError:
        raise TransportError(f"the other node read nothing within {CONNECT_SECONDS:g} s") from None


def _last_words(process: subprocess.Popen[bytes]) -> str:
    """The last line of the other process's standard error, if it has ended."""
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        return ""
    assert process.stderr
    text = b""
    while len(text) < _ERROR_BYTES and (block := _at_once(process.stderr)):
        text += block
    words = text.decode("utf-8", "replace").strip().splitlines()
    return f"; {words[-1][:_WORDS_BYTES]}" if words else ""


def _at_once(pipe: IO[bytes]) -> bytes:
    """What a pipe holds now; empty at its end, or if a process that lives on keeps it open."""
    return os.read(pipe.fileno(), 4096) if select.select([pipe], [], [], 0)[0] else b""


def _packed() -> bytes:
    """The parts of gdrkit that the other side needs, as a zip file that Python can import."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("gdrkit/__init__.py", "")
        for folder in _SENT:
            for name in sorted(os.listdir(os.path.join(package, folder))):
                if name.endswith(".py"):
                    archive.write(os.path.join(package, folder, name), f"gdrkit/{folder}/{name}")
    return buffer.getvalue()
