"""Render rows of text for a terminal: wrapped, indented, optionally coloured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gdrkit.agent.streams import visible

Row = tuple[int, str, str]  # indent, style or name of a style, text

WIDTH = 100
"""Columns if the output is not a terminal, for example a mail or a ticket."""


def render(
    rows: Iterable[Row], styles: Mapping[str, str], *, colour: bool = False, width: int | None = None
) -> str:
    """The rows as lines of `width` columns, with ANSI colours if `colour`."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out, width=width or WIDTH, force_terminal=colour, color_system="standard" if colour else None,
        highlight=False, emoji=False, markup=False,
    )  # fmt: skip
    for indent, style, words in rows:
        words = visible(words)
        line = Text(words, style=styles.get(style, style))
        for piece in line.wrap(console, console.width - indent) if words else [line]:
            piece.rstrip()  # a line that is broken at a space keeps it
            console.print(Text(" " * indent) + piece, no_wrap=True, overflow="ignore", crop=False)
    return out.getvalue()
