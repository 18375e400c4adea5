"""Lines of NCCL in a text that people wrote: those that name no process may be examples."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.formats.sentences import has_words_of_others, is_sentence
from gdrkit.programs.nccl.log_lines import frame, is_framed, record
from gdrkit.programs.nccl.log_records import Version

MOSTLY = 0.5
"""The share of a log's lines that NCCL prints: between them are empty lines and those of the program."""

LONGEST_BYTES = 512 << 10
"""A longer text is a log: people write shorter ones."""

NOTE = (
    "lines of NCCL without the process that printed them may be examples in this text, and do not count: "
    "gdr explain says what they would mean"
)


class NcclText(Struct, frozen=True):
    """The lines of a text, those that do not count empty; and whether it is a log and little else."""

    lines: tuple[str, ...]
    is_log: bool
    dropped: frozenset[int] = frozenset()  # numbers of the lines of NCCL that name no process


def nccl_text(content: bytes) -> NcclText:
    """What counts in a text. In one with sentences, only lines with the process that printed them do."""
    lines = content.decode("utf-8", "replace").splitlines()
    shown = [line for line in lines if line.strip()]
    others = [line for line in shown if not is_framed(line)]
    if len(shown) - len(others) >= MOSTLY * len(shown):
        return NcclText(tuple(lines), True)
    rest = [line for line in others if record(frame(line).message) is None]
    if len(shown) - len(rest) >= MOSTLY * len(shown):
        return NcclText(tuple(lines), True)
    if len(content) > LONGEST_BYTES or not any(map(_is_written, rest)):
        return NcclText(tuple(lines), False)
    framed = [is_framed(line) and bool(frame(line).process) for line in lines]
    if not any(framed):
        framed = _excerpts(lines)
    beside = [any(framed[max(0, at - 1) : at + 2]) for at in range(len(lines))]
    kept = tuple(
        line if own or (near and _is_version(line)) else ""
        for line, own, near in zip(lines, framed, beside, strict=True)
    )
    dropped = frozenset(
        number
        for number, (one, line) in enumerate(zip(kept, lines, strict=True), 1)
        if not one and (is_framed(line) or record(frame(line).message))
    )
    return NcclText(kept if dropped else tuple(lines), False, dropped)


EXCERPT_LINES = 3
"""Lines in a row that nobody makes up as examples."""
_UNNAMED = regex(r"\s{0,8}(?:[\w./-]{1,80}\.(?:cc|cu|c|h):\d{1,5} )?NCCL (?:INFO|WARN) \S")


def _excerpts(lines: list[str]) -> list[bool]:
    """Whether each line is of a log without its processes, which its reader may have cut off: several lines
    of NCCL in a row, each with nothing before it."""
    found = [False] * len(lines)
    run: list[int] = []
    for at, line in enumerate((*lines, "end")):
        if _UNNAMED.match(line):
            run.append(at)
        elif line.strip():
            for number in run if len(run) >= EXCERPT_LINES else ():
                found[number] = True
            run = []
    return found


def _is_version(line: str) -> bool:
    """Whether a line is NCCL's version, which the first rank prints without a frame between those that have
    one: src/init.cc, showVersion()."""
    return isinstance(record(frame(line).message), Version)


def _is_written(line: str) -> bool:
    return is_sentence(line) or has_words_of_others(line)


@functools.cache
def between_lines(*, hosts: bool) -> re.Pattern[str]:
    """The blanks between two lines that were copied from a screen as one; `hosts`: people did not remove the
    hosts from them."""
    if hosts:
        return re.compile(r"(?<!\s)\s{2,}+(?=[^\s:]{1,255}:\d{1,10}:\d{1,10} \[\d{1,4}\] NCCL )")
    return re.compile(r"(?<!\s)\s++(?=\[\d{1,4}\] NCCL (?:INFO|WARN) )")
