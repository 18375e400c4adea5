"""Standard error of gdr: on a terminal its messages are wrapped; in a pipe one line stays one line.

It imports nothing that `gdr --help` does not.
"""

from __future__ import annotations

from gdrkit.agent.streams import SafeStream
from gdrkit.cli.help_text import columns, hanging

NARROWEST = 20
"""Columns: a terminal that reports fewer does not know its width."""
_BESIDE = "  "
"""What the rest of a message is indented by, beyond its first line."""


class MessageStream(SafeStream):
    """A stream for errors, notes and progress. A traceback stays as Python writes it."""

    def write(self, text: str) -> int:
        """Write whole lines, each within the width of the terminal; no word is broken."""
        if self.isatty() and not text.startswith("Traceback "):
            width = self._width()
            text = "\n".join(_wrapped(line, width) for line in text.split("\n"))
        return super().write(text)

    def status(self, text: str) -> None:
        """As `SafeStream.status`; a line that is too long is cut, since a carriage return stays in the
        cursor's row."""
        super().status(text[: self._width() - 1])

    def _width(self) -> int:
        return max(columns(stream=self), NARROWEST)


def _wrapped(line: str, width: int) -> str:
    """A line wrapped to a width; the first part keeps its indent."""
    if len(line) <= width:
        return line
    margin = line[: len(line) - len(line.lstrip())]
    return hanging(line, width, margin, margin + _BESIDE)
