"""Where in a pasted text something stands that was found in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gdrkit.evidence import Host, Source
from gdrkit.explain.explanation import QuotedLine
from gdrkit.explain.transcript import TextLine

PROOFS = 4
"""Lines that are quoted for one finding, at most: what a reader looks up."""


class TextHost(Host, Protocol):
    """A host made of text: the lines, whose each is, and where an answer stands."""

    speaker: str
    lines: tuple[TextLine, ...]

    @property
    def mine(self) -> tuple[TextLine, ...]:
        """The lines of the machine that this host stands for."""

    def machines(self) -> tuple[TextHost, ...]:
        """A host for each machine that speaks in the text."""

    def contradicted(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each question that the text answers twice, differently, with the lines that do."""


def proofs_of(sources: Iterable[Source], host: TextHost) -> tuple[QuotedLine, ...]:
    """The lines that an answer stands on: those that facts point at, then where its other sources begin."""
    pointed: list[int] = []
    others: list[int] = []
    for source in sources:
        if source.lines:
            pointed += source.lines
        elif origin := host.origin(source.name):
            others.append(origin.lines[0])
    return quote(host, (*pointed, *others))[:PROOFS]


def quote(host: TextHost, numbers: Iterable[int]) -> tuple[QuotedLine, ...]:
    """Those of these lines that are this machine's, each once, as they stand in the text."""
    texts = {line.number: line.text.strip() for line in host.mine}
    return tuple(QuotedLine(number, texts[number]) for number in dict.fromkeys(numbers) if number in texts)
