"""Outputs in a pasted text: which lines belong to which command, and what the command was."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.explain.transcript import TextLine

EVIDENCE = ("machine", "shown")
"""The kinds of lines that a machine may have printed."""


class Block(Struct, frozen=True):
    """A command and what it printed, as far as somebody pasted it."""

    number: int  # the line on which it was typed
    argv: tuple[str, ...]  # without sudo, settings, pipes, and the way to another machine
    filtered: bool  # something took lines out of its output
    lines: tuple[TextLine, ...]
    ended: bool  # a prompt or a word of a person's follows: an output of no lines was empty


def blocks(lines: Iterable[TextLine]) -> tuple[Block, ...]:
    """Every command that was typed, in order, with its output. The lines are one machine's."""
    found: list[tuple[TextLine, list[TextLine]]] = []
    ended: set[int] = set()
    last = 0
    for line in lines:
        if line.kind == "typed":
            ended.add(last)
            last = line.number
            found.append((line, []))
        elif line.kind in EVIDENCE and line.asked and found and found[-1][0].number == line.asked:
            found[-1][1].append(line)
        elif last:
            ended.add(last)
    answers = []
    for typed, output in found:
        argv, filtered = command_of(typed.text)
        answers.append(Block(typed.number, argv, filtered, tuple(output), typed.number in ended))
    return tuple(answers)


def command_of(text: str) -> tuple[tuple[str, ...], bool]:
    """The words of a command line's first command, and whether others took lines out of its output."""
    text = _away().sub("", text, count=1) if _away().match(text) else text
    text = re.sub(r"\d?>(?:&\d|\s*/dev/null)|<\s*/dev/null", "", text)
    first, *others = re.split(r"\|(?!\|)", re.split(r"&&|\|\||;", text)[0])
    words = [word.strip("'\"") for word in first.split()]
    while words and (words[0] in ("sudo", "time", "env", "command") or re.match(r"\w+=|-E$", words[0])):
        words = words[1:]
    if words:
        words[0] = words[0].rpartition("/")[2]
    harmless = all(
        other.split()[:1] in ([], ["cat"], ["less"], ["more"], ["tee"], ["sort"]) for other in others
    )
    return tuple(words), not harmless


@functools.cache
def _away() -> re.Pattern[str]:
    """The way to another machine, before the command that runs there."""
    return re.compile(
        r"(?:sudo )?(?:ssh (?:-[FIiJLlop] \S+ |-\S+ )*[\w.@-]+ "
        r"|(?:kubectl|oc|docker|podman) (?:.*? )?exec .*?-- "
        r"|(?:docker|podman) exec (?:-\S+ )*[\w.-]+ |(?:chroot|nsenter) \S+ (?:-\S+ )*)"
    )
