"""What the command of an install line in modprobe.d does, as far as it can be known without running it.

modprobe passes the line to system(3). This understands what such lines usually consist of: true, false,
exit, modprobe, lists of them, exec, comments, and output that goes nowhere. Everything else is unknown.
Source: modprobe.d(5), install; POSIX.1-2017, 2.2 Quoting, 2.7 Redirection, 2.9.3 Lists.
"""

from __future__ import annotations

import enum
import posixpath
import re

from msgspec import Struct

from gdrkit.facts.modprobe_arguments import read
from gdrkit.formats.regex import regex

_OPERATOR = regex(r"(;|&&|\|\|)")
_BLANKS = " \t\n"  # those of sh, which takes no other character for one
_QUOTE = regex(r"['\"]")
_COMMENT = regex(r"(?:^|(?<=[ \t;&|]))#.*")
_REDIRECTION = regex(
    r"(?<![^ \t])(?:([12]?)>>?[ \t]*/dev/null|(0?)<[ \t]*/dev/null|([12]?)>&([12]))(?=[ \t]|$)"
)
"""To nowhere, or to the other output; sh takes a digit for one only after a blank."""
COMMANDS_LIMIT = 25_000
"""The most commands of a line that are read: each takes microseconds, however short it is."""
_STATUS = regex(r"[0-9]{1,9}")
# Anything that sh would expand, redirect, group or run in the background. kmod expands $CMDLINE_OPTS itself.
_UNSUPPORTED = regex(r"[`<>(){}*?~!\\|&]|(?<![^ \t])#|\$(?!CMDLINE_OPTS)")


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
    silent: bool = False  # what it prints to standard error is not seen there
    ends: bool = False  # nothing after it runs

    @property
    def program(self) -> str:
        return posixpath.basename(self.words[0])


def commands(line: str) -> tuple[SimpleCommand, ...] | None:
    """The simple commands of a line; None if it has unsupported syntax, or too many."""
    comment = _COMMENT.search(line)
    if comment is not None and not _QUOTE.search(line, 0, comment.start()):
        line = line[: comment.start()]
    parts = _OPERATOR.split(line.strip(_BLANKS).rstrip(";").strip(_BLANKS))
    if len(parts) > 2 * COMMANDS_LIMIT:
        return None
    found = []
    for index in range(0, len(parts), 2):
        simple = _simple(parts[index].strip(_BLANKS), parts[index - 1] if index else "")
        if simple is None:
            return None
        found.append(simple)
    return tuple(found)


def _simple(part: str, after: str) -> SimpleCommand | None:
    """A command without its redirections; None if it contains unsupported syntax."""
    given = part
    silent = any((found[1] or found[3]) == "2" and found[4] != "2" for found in _REDIRECTION.finditer(part))
    part = _REDIRECTION.sub(" ", part).strip(_BLANKS)
    if not part or _UNSUPPORTED.search(part):
        return None
    words = tuple(word.strip("'\"") for word in re.split(f"[{_BLANKS}]+", part))
    if re.fullmatch(r"\w+=.*", words[0]):  # an assignment before the command
        return None
    replaces = words[0] == "exec" and len(words) > 1
    if replaces and words[1].startswith("-"):
        return None
    if words == ("exec",) and part != given:  # for all commands after it
        return None
    words = words[1:] if replaces else words
    return SimpleCommand(words, after, silent, replaces or words[0] == "exit")


def status(command: SimpleCommand) -> int | None:
    """The exit status of a command other than modprobe; None if it is not known."""
    if command.words[0].endswith("\r") and "/" in command.words[0]:
        return 127  # a file with Windows' line ends names a command that is not there
    if command.program in ("true", ":") or command.words == ("exec",):
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
            options, words = read(command.words[1:])
            if options.shows:
                return Effect.UNKNOWN
            last = int(bool(options.wrong) or not (options.answers or any(words)))
            idle = options.removes or options.dry_run or options.answers
            loads = loads or not (last or idle)
        else:
            result = status(command)
            if result is None:
                return Effect.UNKNOWN
            last = result
        if command.ends:
            break
    if last:
        return Effect.FAILS
    return Effect.LOADS if loads else Effect.NOTHING
