"""The layout of help: as wide as the terminal, with examples as they are written."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap

NARROWEST, WIDEST = 40, 200
"""Columns: help is not narrower, and a longer line is hard to read."""
_DEEP = " " * 6
_EXAMPLE = re.compile(r"  (?P<command>\S.*?)(?:\s{2,}(?P<comment>\S.*))?")


def columns(otherwise: int = 80) -> int:
    """The width of the terminal, as shutil.get_terminal_size() determines it."""
    if (given := os.environ.get("COLUMNS", "")).isdecimal() and len(given) < 6 and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or otherwise
    except (AttributeError, ValueError, OSError):  # closed, or not a terminal
        return otherwise


def help_width() -> int:
    """Columns for help: the terminal's, within what can be read."""
    return min(max(columns() - 2, NARROWEST), WIDEST)


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter without shutil: argparse creates one per option, and shutil imports every compressor."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Each line of a description or an epilog, wrapped."""
        return "\n".join(wrapped(line, width) for line in text.splitlines()) + "\n"


def wrapped(line: str, width: int) -> str:
    """A line within a width: text is wrapped, but of an example, which is indented, only its comment."""
    if len(line) <= width:
        return line
    example = _EXAMPLE.fullmatch(line)
    if example is None:
        margin = " " * (len(line) - len(line.lstrip()))
        return hanging(line, width, margin, margin)
    comment = example["comment"]
    return f"  {example['command']}" + (f"\n{hanging(comment, width, _DEEP, _DEEP)}" if comment else "")


def hanging(text: str, width: int, first: str, rest: str) -> str:
    """Text in lines of a width, the first after `first`, the others after `rest`. No word is broken."""
    return textwrap.fill(
        text.strip(),
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
