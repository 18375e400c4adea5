"""What it costs to search hostile lines: work in proportion to their length, for every message.

A line that repeats how a message begins made readers try each beginning with each end: minutes for a text
of 64 lines.
"""

from __future__ import annotations

import re
import time

import pytest

from gdrkit import catalogue
from gdrkit.messages.message import LINE_CHARACTERS, MessageTemplate

SECONDS = LINE_CHARACTERS / (1 << 20) * 2
"""Of the processor for a line, twice what a text of 1 MiB may take in seconds: machines differ."""
PLACEHOLDER = re.compile(r"(\{\w*(?::(?:[^{}]|\{[^{}]*\})*)?\})")


def rows() -> tuple[MessageTemplate, ...]:
    return catalogue.every_message()


def units(row: MessageTemplate) -> set[str]:
    """What a line may repeat: each constant, and what a message is up to it."""
    found, before = set(), ""
    for piece in PLACEHOLDER.split(row.template):
        before += "a" if PLACEHOLDER.fullmatch(piece) else piece
        if piece and not PLACEHOLDER.fullmatch(piece):
            found |= {piece, f"a{piece}a", f"{piece} ", before, f"{before}a "}
    return found


def seconds(row: MessageTemplate, unit: str) -> float:
    """CPU time of one search in a line of a unit, of the fastest of up to three."""
    text = (unit * LINE_CHARACTERS)[: LINE_CHARACTERS - 1] + "!"
    best = SECONDS
    for _ in range(3):
        start = time.process_time()
        row._search(text, 0)
        best = min(best, time.process_time() - start)
        if best < SECONDS:
            break
    return best


@pytest.mark.parametrize("program", sorted({row.program for row in rows()}))
def test_no_message_takes_long_to_search_for(program):
    slow = [
        (unit, row.template)
        for row in rows()
        if row.program == program
        for unit in units(row)
        if seconds(row, unit) >= SECONDS
    ]

    assert not slow
