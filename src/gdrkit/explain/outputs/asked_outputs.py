"""The causes that outputs of a text show or exclude, by the rows of explain/outputs/asked_rows.py."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.explain.explanation import STATE
from gdrkit.explain.lines.blocks import EVIDENCE, Block, blocks
from gdrkit.explain.lines.line import STAMP
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.absent_modules import COUNTS, NONE_COUNTED, is_empty
from gdrkit.explain.outputs.asked_rows import OUTPUTS, AskedOutput
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex

LINE_CHARACTERS = 300
"""How much of a line is searched for an output that is one short line."""


_RACK = regex(r"\bNVIDIA GB[23]00\b")
"""A GPU whose NVLink spans the trays of a rack, without NVSwitches on its board."""


def asked_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The outputs that show a cause."""
    positions = {line.number: position for position, line in enumerate(lines)}
    for row, found in _shown(lines):
        if _search(row.shows, _text(found)):
            first = next((line for line in found.lines if _search(row.shows, _bare(line.text))), None)
            position = positions[found.number if first is None else first.number]
            note = STATE if row.states else ""
            in_rack = row.in_rack and any(_RACK.search(line.text) for line in lines if line.kind in EVIDENCE)
            codes = row.in_rack if in_rack else row.codes
            yield Reading(lines[position], position, codes, note, row.decides)


class Exclusion(Struct, frozen=True):
    """The causes that an output excludes, and its first line."""

    codes: tuple[str, ...]
    line: TextLine


def exclusions(lines: tuple[TextLine, ...]) -> tuple[Exclusion, ...]:
    """What outputs exclude, where none shows it."""
    found = [(row, block.lines, _text(block)) for row, block in _shown(lines)]
    shown = {code for row, _, text in found if _search(row.shows, text) for code in row.codes}
    return tuple(
        Exclusion(codes, block[0])
        for row, block, text in found
        if row.excludes and block and _search(row.excludes, text)
        if (codes := tuple(code for code in row.codes if code not in shown))
    )


def excluded(lines: tuple[TextLine, ...]) -> tuple[str, ...]:
    """The causes that outputs exclude, where none shows them."""
    return tuple(dict.fromkeys(code for one in exclusions(lines) for code in one.codes))


def _shown(lines: tuple[TextLine, ...]) -> Iterator[tuple[AskedOutput, Block]]:
    """Each row with each output that it is about: that of its command, or a line of any."""
    every = blocks(lines)
    transcript = any(block.lines or not block.command for block in every)
    for block in filter(lambda block: block.command, every):
        if (block.lines or is_empty(block, transcript)) and not any(line.cut for line in block.lines):
            for row in _with_command():
                if _search(row.command, block.command):
                    yield row, block
    for position, line in enumerate(lines):
        if line.kind in EVIDENCE and not line.cut and _any_line().search(_bare(line.text[:LINE_CHARACTERS])):
            neighbours = lines[max(0, position - 1) : position + 2]
            for row in OUTPUTS:
                unasked = row.beside and any(_search(row.beside, one.text) for one in neighbours)
                if not row.command and not unasked:
                    yield row, Block(line.number, (), False, (line,), True)


@functools.cache
def _with_command() -> tuple[AskedOutput, ...]:
    return tuple(row for row in OUTPUTS if row.command)


@functools.cache
def _any_line() -> re.Pattern[str]:
    """What a line has that alone tells what it is."""
    rows = (row for row in OUTPUTS if not row.command)
    patterns = (pattern for row in rows for pattern in (row.shows, row.excludes) if pattern)
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


def _text(block: Block) -> str:
    """The lines of an output; those that `grep -c` counts as none are none."""
    text = "\n".join(_bare(line.text) for line in block.lines)
    return "" if text == NONE_COUNTED and COUNTS.search(block.command) else text


def _bare(text: str) -> str:
    """A line without its indentation, and the stamp that journald or syslog put before it."""
    return _compiled(rf"(?:{STAMP})*").sub("", text.strip(), count=1)


def _search(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)
