"""Group the lines of a pasted text by the command that printed them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from itertools import dropwhile

from msgspec import Struct

from gdrkit.explain.lines.transcript import TextLine

EVIDENCE = ("machine", "shown")
"""The kinds of lines that can be output of a machine."""


class Block(Struct, frozen=True):
    """A command and its output, as far as the text shows it."""

    number: int  # of the line with the command
    argv: tuple[str, ...]  # without sudo, variables, pipes, and ssh or kubectl
    filtered: bool  # a pipe removed lines of the output
    lines: tuple[TextLine, ...]
    ended: bool  # a prompt or prose follows, so an output without lines was empty
    command: str = ""  # the whole command line
    prompted: bool = False  # between two prompts, as in a terminal


def blocks(lines: Iterable[TextLine]) -> tuple[Block, ...]:
    """Every typed command of one machine, in order, with its output."""
    found: list[tuple[TextLine, list[TextLine]]] = []
    ended: set[int] = set()
    prompted: set[int] = set()
    last = 0
    for line in lines:
        if line.kind == "typed":
            ended.add(last)
            if line.prompted and found and found[-1][0].prompted and found[-1][0].number == last:
                prompted.add(last)
            last = line.number
            found.append((line, []))
        elif line.kind in EVIDENCE and line.typed_at and found and found[-1][0].number == line.typed_at:
            found[-1][1].append(line)
        elif last:
            ended.add(last)
            last = 0
    answers = []
    for typed, output in found:
        parts = _one_valued(typed.text, len(output))
        for part, line in zip(parts, output, strict=False):
            answers.append(
                Block(line.number, *command_of(part), (line,), True, part, typed.number in prompted)
            )
        if parts:
            continue
        argv, filtered = command_of(typed.text)
        answers.append(
            Block(
                typed.number, argv, filtered, tuple(output), typed.number in ended, typed.text,
                typed.number in prompted,
            )
        )  # fmt: skip
    return tuple(answers)


def _one_valued(text: str, lines: int) -> tuple[str, ...]:
    """The commands of a line, `modinfo -F license nvidia; uname -r`, each of which printed one of so many
    lines; () if it is one command, or another number."""
    parts = tuple(part.strip() for part in re.split(r"&&|;", text)) if lines > 1 else ()
    if len(parts) != lines or not all(_one_value().search(part) for part in parts):
        return ()
    return parts


@functools.cache
def _one_value() -> re.Pattern[str]:
    """Commands that print one line: a field of a module, a name, a limit, a number of matches."""
    return re.compile(
        r"^(?:sudo )?(?:modinfo (?:-F |--field[ =])\S+ \S+|uname -[mnr]|hostname|nproc|ulimit -\w{1,3}"
        r"|mokutil --sb-state|cat /(?:sys|proc)/[\w./:-]{1,200}|.{1,80}\| ?grep -\w*c\w* [^|]{1,60}"
        r"|.{1,80}\| ?wc -l)$"
    )


def command_of(text: str) -> tuple[tuple[str, ...], bool]:
    """The words of a command line's first command, and whether a pipe filters its output."""
    if not text:
        return (), False
    text = _remote_prefix().sub("", text, count=1) if _remote_prefix().match(text) else text
    text = re.sub(r"\d?>(?:&\d|\s*/dev/null)|<\s*/dev/null", "", text)
    first, *others = re.split(r"\|(?!\|)", re.split(r"&&|\|\||;", text)[0])
    words = [word.strip("'\"") for word in first.split()]
    words = list(dropwhile(_precedes_command().match, words))
    if words:
        words[0] = words[0].rpartition("/")[2]
    harmless = all(
        other.split()[:1] in ([], ["cat"], ["less"], ["more"], ["tee"], ["sort"]) for other in others
    )
    return tuple(words), not harmless


@functools.cache
def _precedes_command() -> re.Pattern[str]:
    return re.compile(r"(?:sudo|time|env|command|-E)$|\w+=")


@functools.cache
def _remote_prefix() -> re.Pattern[str]:
    """The prefix that runs a command elsewhere: ssh, kubectl exec, docker exec, chroot, nsenter."""
    return re.compile(
        r"(?:sudo )?(?:ssh (?:-[FIiJLlop] \S+ |-\S+ )*[\w.@-]+ "
        r"|(?:kubectl|oc|docker|podman) (?:.*? )?exec .*?-- "
        r"|(?:docker|podman) exec (?:-\S+ )*[\w.-]+ |(?:chroot|nsenter) \S+ (?:-\S+ )*)"
    )
