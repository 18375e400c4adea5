"""`gdr codes [CODE]`: every finding code, and the page of one."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK, USAGE


def parser() -> Parser:
    parser = Parser(
        "codes",
        "The finding codes by layer, or the page of one: what it is, why it happens, its cost, the fix.",
        "  gdr codes\n  gdr codes peermem-stub\n  gdr codes --json",
    )
    parser.add_argument("code", nargs="?", metavar="CODE", help="a finding code")
    parser.output()
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    from gdrkit.report.pages import page, titles

    if options.json:
        import msgspec

        write(msgspec.json.format(msgspec.json.encode(titles()), indent=2).decode() + "\n")
        return OK
    if options.code is None:
        for row in titles():
            write(f"{row.layer:<12} {row.code:<30} {row.title}\n")
        return OK
    known = {row.code for row in titles()}
    if options.code not in known:
        from difflib import get_close_matches

        close = get_close_matches(options.code, known, n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        sys.stderr.write(f"gdr codes: there is no code {options.code!r}{hint}\n")
        return USAGE
    write(page(options.code))
    return OK
