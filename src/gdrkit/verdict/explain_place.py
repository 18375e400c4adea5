"""Where in a pasted text something stands that was found in it. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol

from gdrkit.evidence import Source
from gdrkit.facts.pasted_gpus import gpu_word
from gdrkit.facts.transcript import Line
from gdrkit.rules.rule import Failed
from gdrkit.verdict.explanation import Proof

PROOFS = 4
"""Lines that are quoted for one finding, at most: what a reader looks up."""


class Located(Protocol):
    """As much of a text host as places need."""

    @property
    def mine(self) -> tuple[Line, ...]: ...

    def where(self, source: str) -> tuple[int, ...]: ...


def proofs_of(sources: Iterable[Source], outcome: Failed, host: Located) -> tuple[Proof, ...]:
    """The lines that a finding stands on: those that a fact quoted, then those that its sources are made of."""
    texts = {line.number: line.text.strip() for line in host.mine}
    quoted: list[int] = []
    others: list[int] = []
    for source in sources:
        numbers = host.where(source.name)
        if line := re.fullmatch(r"line (\d+)", source.locator):
            quoted.append(int(line[1]))
        elif numbers:
            best = _best(numbers, texts, (source.text, source.locator, outcome.seen))
            (quoted if best and source.text else others).append(best or numbers[0])
        elif source.text and source.text != "absent":
            quoted += [n for n, text in texts.items() if source.text in text][:1]
    found = dict.fromkeys(number for number in (*quoted, *others) if number in texts)
    return tuple(Proof(number, texts[number]) for number in list(found)[:PROOFS])


def _best(numbers: tuple[int, ...], texts: dict[int, str], words: Iterable[str]) -> int:
    """Of the lines of an output the one that has the words in question; 0 if none has."""
    for phrase in words:
        for wanted in (phrase, *re.findall(r"[\w.+-]{4,}", phrase)):
            for number in numbers:
                if wanted and wanted in texts.get(number, ""):
                    return number
    return 0


def plain_subject(subject: str) -> str:
    """A subject in words of the text: a log by its first line, a GPU by its number where that was all."""
    if log := re.fullmatch(r"sos_commands/(\w+)/line-(\d+)\.\w+(?::\d+)?", subject):
        return f"{log[1]} at line {log[2]}"
    if log := re.fullmatch(r"sos_commands/(\w+)/pasted\.log(?::(\d+))?", subject):
        return f"{log[1]} log" + (f", line {log[2]}" if log[2] else "")
    return " ".join(gpu_word(word) for word in subject.split())
