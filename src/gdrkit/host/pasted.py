"""Text that somebody pasted. Nothing else was collected."""

from __future__ import annotations

from gdrkit.evidence import Command, Lacks, Missing, Why
from gdrkit.host.lacks import not_collected

PATH = "pasted"
"""Where the text stands."""


class PastedHost:
    """A host of one file."""

    source = "pasted"

    def __init__(self, text: str | bytes) -> None:
        self._text = text.encode() if isinstance(text, str) else text

    def read(self, path: str) -> bytes:
        if path != PATH:
            raise not_collected(path)
        return self._text

    def map(self, path: str) -> memoryview:
        return memoryview(self.read(path))

    def list(self, path: str) -> tuple[str, ...]:
        raise not_collected(path)

    def exists(self, path: str) -> bool:
        if path != PATH:
            raise not_collected(path)
        return True

    def resolve(self, path: str) -> str:
        return path

    def run(self, command: Command) -> bytes:
        raise Lacks(Missing(command.line, Why.NOT_COLLECTED, command.line))
