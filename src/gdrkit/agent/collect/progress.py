"""What a person sees while a bundle is made: one line that changes, on a terminal; a few plain lines
elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

_SECONDS_BETWEEN = 0.05


class Progress:
    """Says on a stream what is being collected."""

    def __init__(self, stream: TextIO = sys.stderr, *, quiet: bool = False, verbose: bool = False) -> None:
        self._stream, self._quiet, self._verbose = stream, quiet, verbose
        self._live = not quiet and not verbose and stream.isatty()
        self._last = 0.0
        self._shown = False

    def stage(self, words: str) -> None:
        """A new part of the work begins."""
        if self._live:
            self._last = 0.0
            self.step(words)
        elif not self._quiet:
            self._write(f"collecting {words}\n")

    def step(self, words: str) -> None:
        """One more thing of this part."""
        if self._verbose:
            self._write(f"  {words}\n")
        elif self._live and time.monotonic() - self._last >= _SECONDS_BETWEEN:
            self._last = time.monotonic()
            width = shutil.get_terminal_size().columns - 1
            self._write(f"\r\x1b[K{f'collecting {words}'[:width]}")
            self._shown = True

    def line(self, words: str) -> None:
        """Something to stay, after the work or in the middle of it."""
        self._clear()
        if not self._quiet:
            self._write(words + "\n")

    def problem(self, words: str) -> None:
        """Something to be said even to who wants quiet."""
        self._clear()
        self._write(words + "\n")

    def _clear(self) -> None:
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _write(self, words: str) -> None:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        self._stream.write(words.encode(encoding, "replace").decode(encoding))
        self._stream.flush()
