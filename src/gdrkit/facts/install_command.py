"""What a command in an install line does, for the commands of which that can be told. PURE text, no shell.

modprobe hands the line to system(3). Of sh's language this knows what such lines are made of: true, false,
exit, modprobe, and lists of them. Everything else is unknown. Source: modprobe.d(5), install; POSIX.1-2017,
2.9.3 Lists.
"""

from __future__ import annotations

import enum
import posixpath
import re

from msgspec import Struct

_OPERATOR = re.compile(r"\s*(;|&&|\|\|)\s*")
# Anything that sh would expand, redirect, group or run in the background. $CMDLINE_OPTS is kmod's, not sh's.
_BEYOND = re.compile(r"[`<>(){}*?~!#\\|&]|\$(?!CMDLINE_OPTS)")


class Effect(enum.StrEnum):
    """What comes of an install line."""

    LOADS = "loads"  # it calls modprobe
    FAILS = "fails"
    NOTHING = "nothing"  # success, and no module
    UNKNOWN = "unknown"


class SimpleCommand(Struct, frozen=True):
    """One command of a list: words, and what makes it run."""

    words: tuple[str, ...]
    after: str  # "" for the first, else ";", "&&" or "||"

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0])


def commands(line: str) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a line; None if it holds more than this knows."""
    parts = _OPERATOR.split(line.strip().rstrip(";").strip())
    found = []
    for index in range(0, len(parts), 2):
        part = parts[index]
        if not part or _BEYOND.search(part):
            return None
        words = tuple(word.strip("'\"") for word in part.split())
        if re.fullmatch(r"\w+=.*", words[0]):  # an assignment before the command
            return None
        found.append(SimpleCommand(words, parts[index - 1] if index else ""))
    return tuple(found)


def status(command: SimpleCommand) -> int | None:
    """The exit status of a command that is no modprobe; None if it cannot be told."""
    if command.program in ("true", ":"):
        return 0
    if command.program == "false":
        return 1
    if command.words[0] == "exit" and (len(command.words) == 1 or command.words[1].isdigit()):
        return int(command.words[1]) & 0xFF if len(command.words) > 1 else 0
    return None


def effect(line: str) -> Effect:
    """What comes of an install line, if the modules that it asks modprobe for can be loaded."""
    found = commands(line)
    if found is None:
        return Effect.UNKNOWN
    last, loads = 0, False
    for command in found:
        if (command.after == "&&" and last) or (command.after == "||" and not last):
            continue
        if command.program == "modprobe":
            last, loads = 0, True
            continue
        result = status(command)
        if result is None:
            return Effect.UNKNOWN
        last = result
        if command.words[0] == "exit":
            break
    if last:
        return Effect.FAILS
    return Effect.LOADS if loads else Effect.NOTHING
