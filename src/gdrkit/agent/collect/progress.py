"""Progress output: one line that is overwritten on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

from ..streams import SafeStream

_SECONDS_BETWEEN = 0.05
_LONG_AGO = float("-inf")  # a clock that starts with the machine may show less than any time between


class CollectorProgress:
    """Writes to a stream what is being collected."""

    def __init__(self, stream: Any = sys.stderr, *, quiet: bool = False, verbose: bool = False) -> None:
        self._stream = stream if isinstance(stream, SafeStream) else SafeStream(stream)
        self._quiet, self._verbose = quiet, verbose
        self._live = not quiet and not verbose and stream.isatty()
        self._last = _LONG_AGO
        self._shown = False

    def stage(self, text: str) -> None:
        """Start a new stage."""
        if self._live:
            self._last = _LONG_AGO
            self.step(text)
        elif not self._quiet:
            self._write(f"collecting {text}\n")

    def step(self, text: str) -> None:
        """Show one item of the stage."""
        if self._verbose:
            self._write(f"  {text}\n")
        elif self._live and time.monotonic() - self._last >= _SECONDS_BETWEEN:
            self._last = time.monotonic()
            width = shutil.get_terminal_size().columns - 1
            self._stream.status(f"collecting {text}"[:width])
            self._shown = True

    def line(self, text: str) -> None:
        """Print a line that stays, unless quiet."""
        self._clear()
        if not self._quiet:
            self._write(text + "\n")

    def problem(self, text: str) -> None:
        """Print a line that stays, even if quiet."""
        self._clear()
        self._write(text + "\n")

    def _clear(self) -> None:
        if self._shown:
            self._stream.status("")
            self._shown = False

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
