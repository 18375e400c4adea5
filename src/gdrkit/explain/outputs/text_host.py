"""Quote the lines of a pasted text that prove a finding or a fact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gdrkit.evidence import Host, Source
from gdrkit.explain.explanation import QuotedLine
from gdrkit.explain.lines.transcript import TextLine

MAX_PROOFS = 4
"""Lines that are quoted for one finding at most."""


class TextHost(Host, Protocol):
    """A host made of a pasted text: its lines, their machines, and the lines of each answer."""

    machine: str
    lines: tuple[TextLine, ...]

    @property
    def own_lines(self) -> tuple[TextLine, ...]:
        """The lines of this machine."""

    @property
    def whole(self) -> bool:
        """Whether the text lists every PCI function and every RDMA device of this machine."""

    def machines(self) -> tuple[TextHost, ...]:
        """A host for each machine in the text."""

    def contradicted(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each file or command that the text shows with different contents, and the lines that do."""


def proofs_of(sources: Iterable[Source], host: TextHost) -> tuple[QuotedLine, ...]:
    """The lines that prove an answer: those that facts name, then the first line of each other source."""
    named: list[int] = []
    others: list[int] = []
    for source in sources:
        if source.lines:
            named += source.lines
        elif origin := host.origin(source.name):
            others.append(origin.lines[0])
    return quote(host, (*named, *others))[:MAX_PROOFS]


def quote(host: TextHost, numbers: Iterable[int]) -> tuple[QuotedLine, ...]:
    """Those of the lines that belong to this machine, each once."""
    texts = {
        line.number: line.text.strip() for line in reversed(host.own_lines)
    }  # the whole before its parts
    return tuple(QuotedLine(number, texts[number]) for number in dict.fromkeys(numbers) if number in texts)
