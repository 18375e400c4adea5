"""The layout of help: as wide as the terminal, with examples as they are written.

It imports nothing that Python has not imported already: re and textwrap take longer than `gdr --help`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gdrkit.agent.streams import SafeStream

NARROWEST, WIDEST = 40, 200
"""Columns: help is not narrower, and a longer line is hard to read."""
_EXAMPLE, _DEEP = " " * 2, " " * 6


def columns(otherwise: int = 80, stream: SafeStream | None = None) -> int:
    """The width of the terminal of a stream, standard output if it is None, as shutil.get_terminal_size()
    determines it."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and len(given) < 6 and int(given):
        return int(given)
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or otherwise
    except (AttributeError, ValueError, OSError):  # closed, or not a terminal
        return otherwise


def help_width() -> int:
    """Columns for help: the terminal's, within what can be read."""
    return min(max(columns() - 2, NARROWEST), WIDEST)


def wrapped(line: str, width: int) -> str:
    """A line within a width: text is wrapped, but of an example, which is indented, only its comment."""
    if len(line) <= width:
        return line
    margin = " " * (len(line) - len(line.lstrip()))
    if margin != _EXAMPLE:
        return hanging(line, width, margin, margin)
    command, _, comment = line.strip().partition("  ")
    return f"{_EXAMPLE}{command}" + (f"\n{hanging(comment, width, _DEEP, _DEEP)}" if comment else "")


def hanging(text: str, width: int, first: str, rest: str) -> str:
    """Text in lines of a width, the first after `first`, the others after `rest`. No word is broken."""
    lines, line, is_empty = [], first, True
    for word in text.split():
        if not is_empty and len(line) + 1 + len(word) > width:
            lines.append(line)
            line, is_empty = rest, True
        line += word if is_empty else f" {word}"
        is_empty = False
    return "\n".join([*lines, line])
