"""Lines as container runtimes store them: a text in JSON, or after a time, a stream and a tag; and in a box.

Sources: Docker daemon/logger/jsonfilelog (`{"log": ..., "stream": ...}`); collectors use other keys for the
text; Kubernetes pkg/kubelet/kuberuntime/logs (`time stream P|F text`, CRI).
"""

from __future__ import annotations

import functools

import msgspec

CRI = r"\d{4}-\d\d-\d\dT[0-9:.]+(?:Z|[+-]\d\d:\d\d) (stdout|stderr) ([PF]) ?"
"""The beginning of a line; P: the runtime split a long line, and the rest follows."""


_BAR = "(?:\u2502|\u2503|\u2551)"
BOX_START, BOX_END = rf"^[ \t]*+{_BAR} ?", rf"(?<![ \t])[ \t]*+{_BAR}[ \t\r]*+$"
"""The sides of the box that k9s and other terminal programs draw around a log; a tree has only one."""


class LoggedLine(msgspec.Struct):
    """One line in JSON, from Docker or from a collector that uses another key for the text."""

    log: str | None = None
    message: str | None = None
    msg: str | None = None
    textPayload: str | None = None
    stream: str = ""

    @property
    def text(self) -> str:
        return next((t for t in (self.log, self.message, self.msg, self.textPayload) if t is not None), "")


def logged_line(line: bytes | str) -> LoggedLine | None:
    """A line with a logged text in JSON; None for any other line."""
    try:
        found = _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    named = (found.log, found.message, found.msg, found.textPayload)
    return found if any(text is not None for text in named) else None


@functools.cache
def _decoder() -> msgspec.json.Decoder[LoggedLine]:
    return msgspec.json.Decoder(LoggedLine)
