"""What the command of an install line in modprobe.d does, as far as it can be known without running it.

modprobe passes the line to system(3). This understands what such lines usually consist of: true, false,
exit, modprobe, and lists of them. Everything else is unknown. Source: modprobe.d(5), install; POSIX.1-2017,
2.9.3 Lists.
"""

from __future__ import annotations

import enum
import posixpath
import re

from msgspec import Struct

_OPERATOR = re.compile(r"(;|&&|\|\|)")
_STATUS = re.compile(r"[0-9]{1,9}")
# Anything that sh would expand, redirect, group or run in the background. kmod expands $CMDLINE_OPTS itself.
_UNSUPPORTED = re.compile(r"[`<>(){}*?~!#\\|&]|\$(?!CMDLINE_OPTS)")


class Effect(enum.StrEnum):
    """The effect of an install line."""

    LOADS = "loads"  # it calls modprobe
    FAILS = "fails"
    NOTHING = "nothing"  # it succeeds without loading a module
    UNKNOWN = "unknown"


class SimpleCommand(Struct, frozen=True):
    """One command of a list: its words, and the operator before it."""

    words: tuple[str, ...]
    after: str  # "" for the first, else ";", "&&" or "||"

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0])


def commands(line: str) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a line; None if it contains unsupported syntax."""
    parts = _OPERATOR.split(line.strip().rstrip(";").strip())
    found = []
    for index in range(0, len(parts), 2):
        part = parts[index].strip()
        if not part or _UNSUPPORTED.search(part):
            return None
        words = tuple(word.strip("'\"") for word in part.split())
        if re.fullmatch(r"\w+=.*", words[0]):  # an assignment before the command
            return None
        found.append(SimpleCommand(words, parts[index - 1] if index else ""))
    return tuple(found)


def status(command: SimpleCommand) -> int | None:
    """The exit status of a command other than modprobe; None if it is not known."""
    if command.program in ("true", ":"):
        return 0
    if command.program == "false":
        return 1
    if command.words[0] == "exit":
        given = command.words[1] if len(command.words) > 1 else "0"
        return int(given) & 0xFF if _STATUS.fullmatch(given) else None
    return None


def effect(line: str) -> Effect:
    """The effect of an install line, provided that the modules it loads by modprobe can be loaded."""
    found = commands(line)
    if found is None:
        return Effect.UNKNOWN
    last, loads = 0, False
    for command in found:
        if (command.after == "&&" and last) or (command.after == "||" and not last):
            continue
        if command.program == "modprobe":
            named = any(word and not word.startswith("-") for word in command.words[1:])
            last, loads = int(not named), loads or named
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
