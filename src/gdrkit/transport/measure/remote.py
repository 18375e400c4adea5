"""gdrkit on another node, in a Python that a command such as ssh or srun starts there. It gets gdrkit on its
standard input and keeps it in memory.
"""

from __future__ import annotations

import io
import ipaddress
import os
import shlex
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from gdrkit.agent.launch import program_path
from gdrkit.agent.pipes import end_group, ready, receive, send
from gdrkit.transport.errors import TimedOut, TransportError

ENDED_SECONDS = 2.0
"""How long a process may take to end once its pipes have."""
_ANSWER_BYTES, _ERROR_BYTES, _WORDS_BYTES = 512, 1 << 16, 300
"""The most that is read of the other node's first line and of its errors, and that is quoted of one."""

_SENT = ("agent", "agent/native", "transport", "transport/native", "transport/measure")
_PROGRAM = """import os, sys
if sys.version_info < (3, 9):
    sys.exit("gdrkit needs Python 3.9 or later on this node; found %d.%d" % sys.version_info[:2])
size = int(sys.stdin.buffer.readline())
memory = os.memfd_create("gdrkit")
os.write(1, (os.environ.get("SSH_CONNECTION", "") + "\\n").encode())
left = size
while left:
    piece = sys.stdin.buffer.read(left)
    if not piece: sys.exit("the connection to this node broke")
    os.write(memory, piece)
    left -= len(piece)
sys.path.insert(0, "/proc/self/fd/%d" % memory)
from gdrkit.transport.measure.peer import main
sys.exit(main())
"""
"""The program for the other node. It keeps gdrkit in memory that is freed with the process; it writes no
file.
"""
COMMAND = f"exec python3 -I -c {shlex.quote(_PROGRAM)}"
"""The shell command for the other node. The program is not secret, so it is an argument; its input, with the
key, goes over standard input."""

Started = Callable[["subprocess.Popen[bytes]"], None]


class NotStarted(TransportError):
    """The command ended before gdrkit ran; `lines` are those of its errors."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(f"the other node did not start Python{_quoted(lines)}")
        self.lines = tuple(lines)


@contextmanager
def process(
    command: Sequence[str], end_s: float, started: Started = lambda child: None
) -> Iterator[subprocess.Popen[bytes]]:
    """The other process, with pipes; `started` gets it too. It ends with the block, `end_s` later at the
    latest. Raises TransportError if it is not installed, OSError if it does not start."""
    try:
        program = program_path(command[0])
    except FileNotFoundError:
        raise TransportError(f"{command[0]} is not installed here") from None
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [program, *command[1:]], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    try:
        started(child)
        yield child
    finally:
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                try:
                    stream.close()
                except BrokenPipeError:  # it ended first
                    continue
        end_group(child, end_s)


def introduce(child: subprocess.Popen[bytes], wait_s: float) -> list[str]:
    """Send gdrkit to a node; returns the words of its SSH_CONNECTION, none without it. Raises
    TransportError."""
    packed = _packed()
    tell(child, b"%d\n" % len(packed) + packed, wait_s)
    words = line_of(child, wait_s)
    if words is None:
        raise NotStarted(last_lines(child))
    return words.split()


def line_of(child: subprocess.Popen[bytes], wait_s: float) -> str | None:
    """The next line that a node sends; None if it ended instead. Raises TransportError."""
    assert child.stdout
    try:
        answer = receive(child.stdout, _ANSWER_BYTES, time.monotonic() + wait_s, until=b"\n")
    except TimeoutError:
        raise TimedOut(f"the other node did not answer within {wait_s:.3g} s") from None
    except OverflowError:
        raise TransportError("the other node sent something else than gdrkit's answer") from None
    return answer.decode("ascii", "replace") if answer else None


def client_address(words: Sequence[str]) -> str:
    """This node's address as the other one sees it, from SSH_CONNECTION; "" without it. Raises
    TransportError."""
    return address_of(words[0]) if words else ""  # sshd(8): the client's address comes first


def address_of(word: str) -> str:
    """The address that the other node names. Raises TransportError for what cannot be one."""
    try:
        found = ipaddress.ip_address(word.partition("%")[0])
    except ValueError:
        raise TransportError(f"the other node sent no address: {word[:60]!r}") from None
    if found.is_unspecified or found.is_multicast:
        raise TransportError(f"not an address that this node connects from: {word}")
    return word


def tell(child: subprocess.Popen[bytes], content: bytes, wait_s: float) -> None:
    """Write to the other process. Raises TransportError if it has ended, or does not read in time."""
    assert child.stdin
    try:
        send(child.stdin, content, time.monotonic() + wait_s)
    except BrokenPipeError:
        raise NotStarted(last_lines(child)) from None
    except TimeoutError:
        raise TimedOut(f"the other node read nothing within {wait_s:.3g} s") from None


def last_words(child: subprocess.Popen[bytes]) -> str:
    """The last line of the other process's standard error, if it has ended."""
    return _quoted(last_lines(child))


def _quoted(lines: Sequence[str]) -> str:
    return f"; {lines[-1]}" if lines else ""


def last_lines(child: subprocess.Popen[bytes], wait_s: float = ENDED_SECONDS) -> list[str]:
    """The lines of the other process's standard error, shortened, if it has ended."""
    try:
        child.wait(wait_s)
    except subprocess.TimeoutExpired:
        return []
    assert child.stderr
    text = b""
    while len(text) < _ERROR_BYTES and (block := _at_once(child.stderr)):
        text += block
    return [line[:_WORDS_BYTES] for line in text.decode("utf-8", "replace").strip().splitlines()]


def _at_once(pipe: IO[bytes]) -> bytes:
    """What a pipe holds now; empty at its end, or if a process that lives on keeps it open."""
    return os.read(pipe.fileno(), 4096) if ready([pipe], 0) else b""


def _packed() -> bytes:
    """The parts of gdrkit that the other side needs, as a zip file that Python can import.

    Its members are of 1980: a zip has no time before that, which the clock, or files that ostree or Nix
    installed, may show."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("gdrkit/__init__.py"), "")
        for folder in _SENT:
            for name in sorted(os.listdir(os.path.join(package, folder))):
                if name.endswith(".py"):
                    with open(os.path.join(package, folder, name), "rb") as source:
                        member = zipfile.ZipInfo(f"gdrkit/{folder}/{name}")
                        archive.writestr(member, source.read(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
