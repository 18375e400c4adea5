"""What is driven: parsers with their samples. Runs one input within bounds of time and memory."""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tools.fuzz.altering import altered

MEMORY_BYTES = 2 << 30
"""How much the process may grow. Readers of archives keep at most 64 MiB in memory."""


class Broken(Exception):
    """An input broke what it was given to; the text says how."""


class TooLong(BaseException):
    """No `except Exception` of a parser hides that it takes too long."""


class Target(Protocol):
    """Something that is driven. An input of it depends on the seed and a number alone."""

    name: str
    seconds: float
    """The most processor time of one input."""

    def prepare(self) -> None:
        """Choose its samples, before the first input."""

    def drive(self, draw: random.Random) -> None:
        """Give it one input. Raises anything that it does not document."""


class Sample(NamedTuple):
    """The content of a real file, and what reads it."""

    content: bytes
    read: Callable[[bytes], object]


class Parser(NamedTuple):
    """A parser, its samples, and the errors that it documents."""

    name: str
    samples: Sequence[Sample]
    documented: tuple[type[Exception], ...]
    seconds: float = 5.0

    def prepare(self) -> None:
        len(self.samples)

    def drive(self, draw: random.Random) -> None:
        sample = draw.choice(self.samples)
        with contextlib.suppress(*self.documented):
            sample.read(altered(sample.content, draw))


def why_broken(target: Target, seed: int, number: int) -> str:
    """How an input of a target broke it; "" if it did not."""
    draw = random.Random(f"{seed}:{target.name}:{number}")
    try:
        with limited(target.seconds):
            target.drive(draw)
    except Broken as broken:
        return str(broken)
    except (Exception, TooLong):
        return traceback.format_exc(limit=-8)
    return ""


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Let this process grow by MEMORY_BYTES at most: malloc(3) fails then."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def limited(seconds: float, timer: int = signal.ITIMER_PROF) -> Iterator[None]:
    """Raise TooLong in what runs longer, in processor time: the machine may be busy with other work.

    With ITIMER_REAL in time, for what may wait without end."""
    number = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}[timer]

    def stop(_: int, frame: object) -> None:
        raise TooLong(f"took more than {seconds:g} s")

    before = signal.signal(number, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
