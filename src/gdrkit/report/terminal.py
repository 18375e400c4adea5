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
    lines = _lines(rows, width or WIDTH)
    if colour:
        return _coloured(lines, {**_AS_IT_IS, **styles})
    plain = "".join(f"{start}{piece}\n" for start, piece, _ in lines)
    return "\n".join(map(_without_tabs, plain.split("\n"))) if "\t" in plain else plain


def excerpt(text: str, characters: int) -> str:
    """The words of a quoted line. A longer one loses its middle: programs that pass on an error put the
    cause at its end."""
    words = " ".join(text.split())
    if len(words) <= characters:
        return words
    head = words[: characters // 3].rpartition(" ")[0] or words[: characters // 3]
    tail = words[-(characters - characters // 3) :]
    return f"{head} ... {tail.partition(' ')[2] or tail}"


def _lines(rows: Iterable[Row], width: int) -> Iterator[tuple[str, str, str]]:
    """Each line: its label or indent, its words, and the style of the row."""
    for row in rows:
        indent, style, words = row[:3]
        label = visible(row[3]) if len(row) == 4 else ""
        start = label.ljust(indent) if words else label
        if len(label) > indent and (name := label.lstrip()):  # a part of the text, which is wrapped
            start, words = label.removesuffix(name), name + words
        words = visible(words)
        for piece in [words] if style in _AS_IT_IS else wrapped(words, width - indent):
            yield start, piece, style
            start = " " * indent


TAB_COLUMNS = 8


def _without_tabs(line: str) -> str:
    """A line with blanks up to the next column in place of each tab, as Rich prints it."""
    before, *others = line.split("\t")
    for part in others:
        before += " " * (TAB_COLUMNS - _columns(before) % TAB_COLUMNS) + part
    return before


def _coloured(lines: Iterable[tuple[str, str, str]], names: Mapping[str, str]) -> str:
    """Rich takes as long to import as all that a report of a machine without a GPU needs besides."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    console = Console(
        file=out, force_terminal=True, color_system="standard", highlight=False, emoji=False, markup=False
    )
    for start, piece, style in lines:
        named = names.get(style, style)
        line = Text(start, style=named or "bold") + Text(piece, style=named)
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
    return out.getvalue()


def wrapped(words: str, width: int) -> Iterator[str]:
    """Lines of at most `width` columns, broken at spaces; a longer word after a separator (/ . - _ ...).

    A word without a separator, longer than a line, is broken anywhere."""
    line = ""
    for word in _WORDS.findall(words) or [""]:
        if _columns(line + word.rstrip()) <= width:
            line += word
            continue
        if line:
            yield line.rstrip()
        *full, line = _broken(word, width)
        yield from full
    yield line.rstrip()


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes. Rich is loaded for what is not plain ASCII."""
    if _is_plain(text):
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _chopped(text: str, width: int) -> list[str]:
    """A text as pieces of that many columns."""
    if _is_plain(text):
        return [text[at : at + width] for at in range(0, len(text), width)]
    from rich.cells import chop_cells

    return chop_cells(text, width)


def _is_plain(text: str) -> bool:
    """Whether each character takes one column."""
    return text.isascii() and text.isprintable()


def _broken(word: str, width: int) -> list[str]:
    """A word as pieces that each fit into a line; mostly a single one."""
    pieces = [""]
    for part in _PARTS.findall(word.rstrip()):
        for chunk in _chopped(part, width):
            if _columns(pieces[-1] + chunk) <= width:
                pieces[-1] += chunk
            else:
                pieces.append(chunk)
    pieces[-1] += word[len(word.rstrip()) :]
    return pieces
