"""Where in a pasted text something stands that was found in it. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from gdrkit.evidence import Host, Source
from gdrkit.explain.explanation import Proof
from gdrkit.explain.gpus import gpu_word
from gdrkit.explain.transcript import Line
from gdrkit.rules.rule import Failed

PROOFS = 4
"""Lines that are quoted for one finding, at most: what a reader looks up."""


class TextHost(Host, Protocol):
    """A host made of text: the lines, whose each is, and where an answer stands."""

    speaker: str
    lines: tuple[Line, ...]

    @property
    def mine(self) -> tuple[Line, ...]:
        """The lines of the machine that this host stands for."""

    def machines(self) -> tuple[TextHost, ...]:
        """A host for each machine that speaks in the text."""

    def where(self, source: str) -> tuple[int, ...]:
        """The numbers of the lines that answer for a file or a command."""

    def contradicted(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Each question that the text answers twice, differently, with the lines that do."""


def proofs_of(sources: Iterable[Source], outcome: Failed, host: TextHost) -> tuple[Proof, ...]:
    """The lines that a finding stands on: those that a fact quoted, then those of its sources."""
    texts = {line.number: line.text.strip() for line in host.mine}
    start = _start(outcome.subject, texts)
    quoted = [int(number) for number in re.findall(r"(?:\blines? |\band |\.log:)(\d+)\b", outcome.seen)]
    others: list[int] = []
    for source in sources:
        numbers = host.where(source.name)
        if line := re.fullmatch(r"line (\d+)", source.locator):
            quoted.append(int(line[1]))
        elif numbers:
            best = _best(numbers, texts, (source.text, source.locator, outcome.seen), start)
            (quoted if best and source.text else others).append(best or numbers[0])
        elif source.text and source.text != "absent":
            best = _best(tuple(texts), texts, (source.text,), start)
            quoted += [best] if best else []
    found = dict.fromkeys(number for number in (*quoted, *others) if number in texts)
    return tuple(Proof(number, texts[number]) for number in list(found)[:PROOFS])


def _start(subject: str, texts: dict[int, str]) -> int:
    """Where the text begins to speak of a PCI device, by bus and slot; 0 for other subjects."""
    address = re.match(r"[0-9a-f]{4,8}:([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", subject)
    if address is None:
        return 0
    return next((number for number, text in texts.items() if address[1] in text.lower()), 0)


def _best(numbers: tuple[int, ...], texts: dict[int, str], words: Iterable[str], start: int) -> int:
    """Of the lines of an output the one that has the words in question; 0 if none has.

    Of several the first that comes once the text speaks of the subject."""
    for phrase in words:
        for wanted in (phrase, *re.findall(r"[\w.+-]{4,}", phrase)):
            having = [number for number in numbers if wanted and wanted in texts.get(number, "")]
            if having:
                return next((number for number in having if number >= start), having[0])
    return 0


def plain(words: str) -> str:
    """Words about a bundle as words about the text: a log by its line, a GPU by its number."""
    words = re.sub(r"sos_commands/(\w+)/line-(\d+)\.\w+(?::\d+)?", r"\1 at line \2", words)
    words = re.sub(r"sos_commands/(\w+)/pasted\.log:(\d+)", r"\1 log, line \2", words)
    words = re.sub(r"sos_commands/(\w+)/pasted\.log", r"\1 log", words)
    return re.sub(r"\bffff:[0-9a-f]{2}:00\.0\b", lambda found: gpu_word(found[0]), words)
