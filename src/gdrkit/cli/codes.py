"""`gdr codes [WORD]`: list the finding codes, print the page of one, explain a word, or search."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, colours, text_width, write, write_json
from gdrkit.cli.exit import OK, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gdrkit.report.code_search import CodeMatch
    from gdrkit.report.glossary import Term
    from gdrkit.report.pages import CodeTitle


def parser() -> Parser:
    parser = Parser(
        "codes",
        "List the finding codes by layer, print the page of one, explain a word of the glossary, or search "
        "codes, their titles and the glossary.",
        "  gdr codes\n  gdr codes peermem-stub\n  gdr codes PXB\n  gdr codes 'port down'\n"
        "  gdr codes --json",
    )
    parser.add_argument(
        "word", nargs="?", metavar="WORD", help="a code, a term such as PXB, or words to search"
    )
    parser.output()
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.word is not None and options.json:
        parser().error(f"--json prints the whole list; omit {options.word!r}")
    from gdrkit.report.code_search import search
    from gdrkit.report.glossary import GLOSSARY, term
    from gdrkit.report.pages import page, titles

    codes = {row.code: row for row in titles()}
    if options.json:
        write_json(titles(), indent=2)
    elif options.word is None:
        _index(codes.values())
    elif options.word in codes:
        from gdrkit.report.page_text import page_text

        coloured = colours()
        write(page_text(page(options.word), colour=coloured, width=text_width()), styled=coloured)
    elif (entry := term(options.word)) is not None:
        write(_entry(entry))
        _list([match for match in search(options.word) if match.where != "glossary"])
    else:
        if not (matches := search(options.word)):
            return _unknown(options.word, [*codes, *(entry.name for entry in GLOSSARY)])
        _list(matches)
    return OK


def _index(pages: Iterable[CodeTitle]) -> None:
    """Print the list of codes: a line each, for grep; on a terminal, titles are wrapped in their column."""
    lines = [(f"{page.layer:<12} {page.code:<30} ", page.title) for page in pages]
    if not sys.stdout.isatty():
        write("".join(f"{label}{title}\n" for label, title in lines))
        return
    from gdrkit.report.terminal import Row, render

    rows: list[Row] = [(len(label), "none", title, label) for label, title in lines]
    if text_width() < 2 * len(lines[0][0]):
        rows = [row for label, title in lines for row in ((0, "none", label.rstrip()), (4, "none", title))]
    write(render(rows, {}, width=text_width()))


def _list(matches: list[CodeMatch]) -> None:
    """Print what a search found, best first."""
    from gdrkit.report.terminal import render

    indent = 4
    rows = [
        row
        for match in matches
        for row in ((0, "bold", f"{match.name} ({match.where})"), (indent, "", match.text))
    ]
    coloured = colours()
    write(render(rows, {}, colour=coloured, width=text_width()), styled=coloured)


def _entry(entry: Term) -> str:
    """An entry of the glossary as a paragraph, with the codes that explain more."""
    from textwrap import fill

    more = f" See: {', '.join(entry.codes)}." if entry.codes else ""
    words = f"{entry.name}: {entry.text}{more}"
    return fill(words, text_width(), subsequent_indent="  ", break_on_hyphens=False) + "\n"


def _unknown(word: str, known: list[str]) -> int:
    from gdrkit.formats.misspelt import did_you_mean

    sys.stderr.write(f"gdr codes: unknown code or word: {word!r}{did_you_mean(word, known)}\n")
    return USAGE
