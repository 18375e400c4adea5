"""Progress output: one line that is overwritten on a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

_SECONDS_BETWEEN = 0.05


class Progress:
    """Writes to a stream what is being collected."""

    def __init__(self, stream: TextIO = sys.stderr, *, quiet: bool = False, verbose: bool = False) -> None:
        self._stream, self._quiet, self._verbose = stream, quiet, verbose
        self._live = not quiet and not verbose and stream.isatty()
        self._last = 0.0
        self._shown = False

    def stage(self, text: str) -> None:
        """Start a new stage."""
        if self._live:
            self._last = 0.0
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
            self._write(f"\r\x1b[K{f'collecting {text}'[:width]}")
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
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, text: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()
