"""The progress of a run over many nodes, on standard error."""

from __future__ import annotations

import sys
import time

from gdrkit.cli.arguments import status

BAR = 30
EVERY_S = 0.1


class FleetProgress:
    """A bar on a terminal, and a line for each failure as it comes."""

    def __init__(self, total: int, what: str) -> None:
        self._total, self._what, self._done, self._failed = total, what, 0, 0
        self._shown = 0.0
        self._begun = time.monotonic()

    def step(self, failure: str = "") -> None:
        """One more is done, perhaps without an answer."""
        self._done += 1
        if failure:
            self._failed += 1
            self.say(failure)
        if (now := time.monotonic()) - self._shown > EVERY_S:
            self._shown = now
            self._bar(now - self._begun)

    def say(self, line: str) -> None:
        """A line above the bar."""
        status("")
        sys.stderr.write(f"{line}\n")
        self._shown = 0.0

    def _bar(self, seconds: float) -> None:
        filled = BAR * self._done // max(1, self._total)
        failed = f", {self._failed} without an answer" if self._failed else ""
        bar = f"{'#' * filled}{'.' * (BAR - filled)}"
        status(f"[{bar}] {self._done} of {self._total} {self._what}{failed}, {seconds:.0f} s")

    def end(self) -> None:
        status("")
