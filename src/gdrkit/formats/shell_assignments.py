r"""Assignments in a file of settings that sh sources, such as /etc/default/grub.

    GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
    GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"
    GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX console=ttyS0" # serial console

Written by hand because no library reads it: shlex splits words, but keeps neither positions nor variables.
It reads assignments that begin a line, whatever `if` is around them. Source: POSIX.1-2017, Shell Command
Language, 2.2 Quoting and 2.6.2 Parameter Expansion; Debian's /etc/default/grub.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

TEXT_CHARACTERS = 1 << 16
"""The longest file that is read. Those of distributions have about 1500 characters."""
VALUE_CHARACTERS, ASSIGNMENTS = 1 << 14, 1000
"""The longest value, and the most of them: `A=$A$A` on 20 lines would be a million characters."""

_VARIABLE = regex(r"\$(?:\{(\w{1,80})\}|(\w{1,80}))", re.ASCII)
_ESCAPED_IN_DOUBLE = '$`"\\\n'


class Assignment(Struct, frozen=True):
    """A variable's new value, and the line on which its assignment begins."""

    name: str
    value: str
    line: int


def assignments(text: str, names: Iterable[str], before: dict[str, str]) -> tuple[Assignment, ...]:
    """The assignments to these variables, in order. `before`: their values when the file is sourced.

    Raises FormatError where a value depends on what a command prints."""
    if len(text) > TEXT_CHARACTERS:
        raise FormatError(f"longer than {TEXT_CHARACTERS} characters")
    known = dict(before)
    found: list[Assignment] = []
    pattern = re.compile(rf"^[ \t]{{0,80}}(?:export[ \t]{{1,8}})?({'|'.join(map(re.escape, names))})=", re.M)
    at = 0
    while match := pattern.search(text, at):
        value, at = _word(text, match.end(), lambda name: known.get(name, ""))
        if len(value) > VALUE_CHARACTERS or len(found) == ASSIGNMENTS:
            raise FormatError("longer or more values than any machine has")
        known[match[1]] = value
        found.append(Assignment(match[1], value, text.count("\n", 0, match.start()) + 1))
    return tuple(found)


def _word(text: str, at: int, value_of: Callable[[str], str]) -> tuple[str, int]:
    """The word that begins at a position, with quotes removed and variables replaced, and where it ends."""
    parts, quote = [], ""
    while at < len(text):
        letter = text[at]
        if letter == quote:
            quote = ""
        elif quote == "'":
            parts.append(letter)
        elif letter == "\\":
            at += 1
            escaped = text[at : at + 1]
            kept = "\\" if quote and escaped not in _ESCAPED_IN_DOUBLE else ""
            parts.append("" if escaped == "\n" else kept + escaped)
        elif letter == "`" or text.startswith("$(", at):
            raise FormatError("a value is what a command prints")
        elif variable := _VARIABLE.match(text, at):
            parts.append(value_of(variable[1] or variable[2]))
            at = variable.end() - 1
        elif not quote and letter in "'\"":
            quote = letter
        elif not quote and (letter.isspace() or letter in ";&|<>()"):
            break
        else:
            parts.append(letter)
        at += 1
    if quote:
        raise FormatError(f"a {quote} is never closed")
    return "".join(parts), at
