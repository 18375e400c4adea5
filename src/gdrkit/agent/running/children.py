"""Read each source in its own child process, so that one that hangs in the kernel does not delay the others.

A child writes lines of JSON; what it wrote before it was cut off counts.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Tuple

Emit = Callable[[Mapping[str, Any]], None]
Place = Tuple[str, int]
"""The name of a network namespace, and a process in it."""
Source = Callable[[Emit], None]

BLOCK_BYTES = 1 << 16
PLACES = 64
"""Most network namespaces that are entered. A pipe holds 4096 bytes at least: pipe(7)."""
LIMIT_BYTES = 32 << 20
"""Of one source. 256 processes with a thousand MRs each take 10 MB."""
FAULTS = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError,
    struct.error,
)  # fmt: skip
"""What a fault of a source itself raises: the record has it, and the other sources go on."""
_DENIED = (1, 13)  # EPERM, EACCES
_ABSENT = (2, 92, 93, 95, 97)
"""ENOENT, and what socket(2) answers for a protocol that this kernel has not."""


class Relay:
    """Passes places from one source to another: each runs in its own child. A pipe holds PLACES of them,
    and no more are passed: the one that passes them never waits for the other."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._left = PLACES

    def put(self, place: Place) -> None:
        """Pass a place on, unless they are too many."""
        if self._left:
            self._left -= 1
            os.write(self._writer, ("%s %d\n" % place).encode("ascii"))

    def end(self) -> None:
        """There are no more. (The pipe itself stays open in every child.)"""
        os.write(self._writer, b"\n")

    def places(self, deadline: float) -> Iterator[Place]:
        """Each place as it comes, until the end or the deadline."""
        rest = b""
        while select.select([self._reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            *lines, rest = (rest + os.read(self._reader, BLOCK_BYTES)).split(b"\n")
            for line in lines:
                if not line:
                    return
                name, _, pid = line.decode("ascii").partition(" ")
                yield name, int(pid)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class SourceResult:
    """What a source told: its rows, and how it ended."""

    def __init__(self) -> None:
        self.rows: List[Dict[str, Any]] = []
        self.status = "timed-out"
        self.why = ""
        self.seconds = 0.0
        self._rest = b""
        self._left = LIMIT_BYTES

    def add(self, block: bytes) -> bool:
        """Take a block of output; returns whether more may come."""
        self._left -= len(block)
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in lines:
            found = json.loads(line.decode("ascii"))
            if "ended" in found:
                self.status, self.why = str(found["ended"]), str(found["why"])
            else:
                self.rows.append(found)
        if self._left < 0:
            self.status, self.why = "truncated", "more than %d bytes" % LIMIT_BYTES
        return self._left >= 0


def gather(sources: Mapping[str, Source], deadline: float) -> Dict[str, SourceResult]:
    """The result of each source. Returns at the deadline even if a child hangs."""
    results = {name: SourceResult() for name in sources}
    began = time.monotonic()
    pipes: Dict[int, str] = {}
    children: Dict[str, int] = {}
    for name, source in sources.items():
        reader, writer = os.pipe()
        children[name] = os.fork()
        if not children[name]:
            os.close(reader)
            _child(source, writer, deadline)
        os.close(writer)
        pipes[reader] = name
    try:
        while pipes and time.monotonic() < deadline:
            ready, _, _ = select.select(list(pipes), [], [], max(0.0, deadline - time.monotonic()))
            for reader in ready:
                block = os.read(reader, BLOCK_BYTES)
                result = results[pipes[reader]]
                result.seconds = round(time.monotonic() - began, 4)
                if not block or not result.add(block):
                    os.close(reader)
                    del pipes[reader]
    finally:
        for reader in pipes:
            os.close(reader)
        _end(children.values())
    return results


def _end(children: "Any") -> None:
    """Kill the children that are left. One that hangs in the kernel is not waited for."""
    for child in children:
        try:
            if os.waitpid(child, os.WNOHANG)[0] == 0:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, os.WNOHANG)
        except (ChildProcessError, ProcessLookupError):
            continue


def _child(source: Source, writer: int, deadline: float) -> NoReturn:
    """Run a source in a child process, which ends here. SIGALRM ends it if its parent is gone."""
    code = 1
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, deadline - time.monotonic() + 1))
        with os.fdopen(writer, "w", encoding="ascii") as stream:
            _run(source, stream)
        code = 0
    finally:
        os._exit(code)


def _run(source: Source, stream: Any) -> None:
    def emit(found: Mapping[str, Any]) -> None:
        stream.write(json.dumps(found) + "\n")
        stream.flush()

    status, why = "found", ""
    try:
        source(emit)
    except TimeoutError as error:
        status, why = "timed-out", str(error)
    except OSError as error:
        status = "denied" if error.errno in _DENIED else "absent" if error.errno in _ABSENT else "failed"
        why = error.strerror or str(error)
    except FAULTS as error:
        status, why = "failed", "%s: %s" % (type(error).__name__, error)
    emit({"ended": status, "why": why})
