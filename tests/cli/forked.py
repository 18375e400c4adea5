"""gdr in a child of the test's own process, which has its modules already.

Much faster than a new Python, for the many commands whose start is not the subject. Standard streams are
files, so nothing waits for a reader, or a terminal, and their encoding is that of the test's own process.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import os
import pkgutil
import pty
import signal
import sys
import tempfile
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import gdrkit
from gdrkit.cli import main
from tests.evidence_nodes import laid_down


class Ended(NamedTuple):
    """What a child left; its code is negative where a signal ended it."""

    code: int
    out: str
    err: str


def gdr(
    arguments: Sequence[str],
    *,
    given: str = "",
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    seconds: int = 60,
    bound: Callable[[], None] = lambda: None,
) -> Ended:
    """Run gdr in a folder (default: this one) with this standard input, after `bound`, which may limit what
    it takes. SIGALRM ends it after so many seconds."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given.encode())
        stdin.seek(0)
        streams = (stdin.fileno(), out.fileno(), err.fileno())
        child = _started(arguments, streams, folder, environment, seconds, bound)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def gdr_on_a_terminal(
    size: tuple[int, int],
    arguments: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] = os.environ,
    seconds: int = 60,
) -> Ended:
    """Run gdr with a terminal of these columns and rows as its standard output."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, size[::-1])
    with tempfile.TemporaryFile() as err, Path(os.devnull).open() as nothing:
        streams = (nothing.fileno(), theirs, err.fileno())
        child = _started(arguments, streams, folder, environment, seconds, lambda: None)
        os.close(theirs)
        shown = shown_on(ours)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        err.seek(0)
        return Ended(code, shown, err.read().decode())


def shown_on(terminal: int) -> str:
    """What a terminal shows until nothing has its other end open; it is closed then."""
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(terminal, 65536):
            shown += chunk
    os.close(terminal)
    return shown.decode().replace("\r\n", "\n")


def _started(
    arguments: Sequence[str],
    streams: tuple[int, int, int],
    folder: Path | None,
    environment: Mapping[str, str],
    seconds: int,
    bound: Callable[[], None],
) -> int:
    """The process id of a child that runs gdr with these standard streams."""
    _warm()
    sys.stdout.flush()
    sys.stderr.flush()
    if (child := os.fork()) == 0:
        gc.freeze()  # else a collection would copy all that the two share
        signal.alarm(seconds)
        _become(arguments, streams, folder, dict(environment), bound)
    return child


@functools.cache
def _warm() -> None:
    """Import what any command may need, and judge a node once: what a child imports and compiles, the next
    one would import and compile again."""
    for module in pkgutil.walk_packages(gdrkit.__path__, "gdrkit."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()):
        main(["doctor", str(laid_down("acs-redirect")), "-v"])


def _become(
    arguments: Sequence[str],
    streams: tuple[int, int, int],
    folder: Path | None,
    environment: dict[str, str],
    bound: Callable[[], None],
) -> NoReturn:
    code = 70
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(at, mode) for at, mode in enumerate("rww"))
        os.environ.clear()
        os.environ.update(environment)
        if folder:
            os.chdir(folder)
        sys.argv = ["gdr", *arguments]
        bound()
        try:
            code = main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # neither pytest's handlers nor its streams
