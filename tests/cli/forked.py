"""gdr in a child of the test's own process, which has its modules already.

Much faster than a new Python, for the many commands whose start is not the subject. Standard streams are
files, so nothing waits for a reader.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from gdrkit.cli import main


class Ended(NamedTuple):
    """What a child left; its code is negative where a signal ended it."""

    code: int
    out: str
    err: str


def gdr(
    arguments: Sequence[str],
    *,
    given: str = "",
    folder: Path,
    environment: Mapping[str, str] = os.environ,
    seconds: int = 60,
) -> Ended:
    """Run gdr there with this standard input. SIGALRM ends it after so many seconds."""
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        stdin.write(given.encode())
        stdin.seek(0)
        sys.stdout.flush()
        sys.stderr.flush()
        if (child := os.fork()) == 0:
            _become(
                arguments, (stdin.fileno(), out.fileno(), err.fileno()), folder, dict(environment), seconds
            )
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return Ended(code, out.read().decode(), err.read().decode())


def _become(
    arguments: Sequence[str],
    streams: tuple[int, int, int],
    folder: Path,
    environment: dict[str, str],
    seconds: int,
) -> NoReturn:
    code = 70
    try:
        signal.alarm(seconds)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(at, mode) for at, mode in enumerate("rww"))
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv = ["gdr", *arguments]
        try:
            code = main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)  # neither pytest's handlers nor its streams
