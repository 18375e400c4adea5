"""`gdr codes [WORD]`: list the finding codes, print the page of one, or explain a word."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, write, write_json
from gdrkit.cli.exit import OK, USAGE

if TYPE_CHECKING:
    from gdrkit.report.glossary import Term


def parser() -> Parser:
    parser = Parser(
        "codes",
        "List the finding codes by layer, print the page of one, or explain a word of the glossary.",
        "  gdr codes\n  gdr codes peermem-stub\n  gdr codes PXB\n  gdr codes --glossary\n  gdr codes --json",
    )
    parser.add_argument("word", nargs="?", metavar="WORD", help="a code, or a word such as stub or PXB")
    parser.add_argument("--glossary", action="store_true", help="print the whole glossary")
    parser.output()
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.word is not None and (options.glossary or options.json):
        other = "--glossary" if options.glossary else "--json"
        parser().error(f"{other} prints the whole list; omit {options.word!r}")
    from gdrkit.report.glossary import GLOSSARY, term
    from gdrkit.report.pages import page, titles

    if options.json:
        rows = GLOSSARY if options.glossary else titles()
        write_json(rows, indent=2)
    elif options.glossary:
        write("".join(_entry(entry) for entry in GLOSSARY))
    elif options.word is None:
        write("".join(f"{row.layer:<12} {row.code:<30} {row.title}\n" for row in titles()))
    elif options.word in {row.code for row in titles()}:
        write(page(options.word))
    elif (entry := term(options.word)) is not None:
        write(_entry(entry))
    else:
        codes = [row.code for row in titles()]
        return _unknown(options.word, [*codes, *(entry.name for entry in GLOSSARY)])
    return OK


def _entry(entry: Term) -> str:
    """An entry of the glossary as a paragraph, with the codes that explain more."""
    from textwrap import fill

    more = f" See: {', '.join(entry.codes)}." if entry.codes else ""
    return (
        fill(f"{entry.name}: {entry.text}{more}", 96, subsequent_indent="  ", break_on_hyphens=False) + "\n"
    )


def _unknown(word: str, known: list[str]) -> int:
    from gdrkit.formats.misspelt import did_you_mean

    sys.stderr.write(f"gdr codes: unknown code or word: {word!r}{did_you_mean(word, known)}\n")
    return USAGE
