"""Render rows of text for a terminal: wrapped, indented, optionally coloured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gdrkit.agent.streams import visible
from gdrkit.formats.regex import regex

Row = tuple[int, str, str] | tuple[int, str, str, str]
"""Indent, style or name of a style, text; the label in the indent of the first line."""

WIDTH = 100
"""Columns if the output is not a terminal, for example a mail or a ticket."""

COMMAND, QUOTE = "command", "quote as it is"
"""Styles of what stays on one line, however long: a command to copy, and a line of a file or of another
program. A terminal that breaks such a line still copies it whole."""
_AS_IT_IS = {COMMAND: "none", QUOTE: "none"}

_PARTS = regex(r"[^/,;:=_.@|-]*[/,;:=_.@|-]+|[^/,;:=_.@|-]+")
"""Where a word that is longer than a line may be broken: after a separator of paths and names."""

_WORDS = regex(r"`[^`]{1,40}`\S*\s*|\d[\d.]{0,9} (?:[A-Za-z]{1,4}/s|[num]?s\b|[kMG]i?B\b)\S*\s*|\S+\s*|^\s+")
"""What stays on one line: a word, a number with its unit, and a short `command`, easier to copy so."""


def render(
    rows: Iterable[Row], styles: Mapping[str, str], *, colour: bool = False, width: int | None = None
) -> str:
    """The rows as lines of `width` columns, but a COMMAND or a QUOTE, with ANSI colours if `colour`."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out, width=width or WIDTH, force_terminal=colour, color_system="standard" if colour else None,
        highlight=False, emoji=False, markup=False,
    )  # fmt: skip
    names = {**_AS_IT_IS, **styles}
    for row in rows:
        indent, style, words = row[:3]
        label = visible(row[3]) if len(row) == 4 else ""
        start = label.ljust(indent) if words else label
        if len(label) > indent and (name := label.lstrip()):  # a part of the text, which is wrapped
            start, words = label.removesuffix(name), name + words
        words, room = visible(words), console.width - indent
        for piece in [words] if style in _AS_IT_IS else wrapped(words, room):
            console.print(
                Text(start, style=names.get(style, style) or "bold")
                + Text(piece, style=names.get(style, style)),
                no_wrap=True, overflow="ignore", crop=False,
            )  # fmt: skip
            start = " " * indent
    return out.getvalue()


def wrapped(words: str, width: int) -> Iterator[str]:
    """Lines of at most `width` columns, broken at spaces; a longer word after a separator (/ . - _ ...).

    A word without a separator, longer than a line, is broken anywhere."""
    from rich.cells import cell_len

    line = ""
    for word in _WORDS.findall(words) or [""]:
        if cell_len(line + word.rstrip()) <= width:
            line += word
            continue
        if line:
            yield line.rstrip()
        *full, line = _broken(word, width)
        yield from full
    yield line.rstrip()


def _broken(word: str, width: int) -> list[str]:
    """A word as pieces that each fit into a line; mostly a single one."""
    from rich.cells import cell_len, chop_cells

    pieces = [""]
    for part in _PARTS.findall(word.rstrip()):
        for chunk in chop_cells(part, width):
            if cell_len(pieces[-1] + chunk) <= width:
                pieces[-1] += chunk
            else:
                pieces.append(chunk)
    pieces[-1] += word[len(word.rstrip()) :]
    return pieces
