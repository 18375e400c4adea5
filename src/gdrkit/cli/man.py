"""`gdr man [COMMAND]`: manual pages, made from the same parsers as --help."""

from __future__ import annotations

import os

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import CANNOT_CREATE, OK


def parser() -> Parser:
    from gdrkit.cli import COMMANDS

    parser = Parser(
        "man",
        "Print the manual page of gdr, or of a command, in the format that man and groff read; or write all "
        "of them into a folder.",
        "  gdr man fleet | man -l -                     read one\n"
        "  gdr man -o ~/.local/share/man/man1           write all, where `man gdr` finds them\n",
    )
    parser.add_argument(
        "command", nargs="?", choices=(*COMMANDS,), metavar="COMMAND", help="gdr itself if omitted"
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write every page into this folder")
    parser.force("--output")
    return parser


def main(arguments: list[str]) -> int:
    from gdrkit.cli.described import described
    from gdrkit.cli.roff import overview, page_of

    options = parser().parse(arguments)
    if options.output is None:
        write(page_of(described(options.command)) if options.command else overview())
        return OK
    if options.command:
        parser().error("--output writes every page; omit the command")
    from gdrkit.cli import COMMANDS
    from gdrkit.cli.files import OutputRefused, write_output

    try:
        os.makedirs(options.output, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputRefused(f"cannot create {options.output}: {error}", code=CANNOT_CREATE) from None
    pages = {"gdr": overview()} | {f"gdr-{name}": page_of(described(name)) for name in COMMANDS}
    for name, text in pages.items():
        write_output(os.path.join(options.output, f"{name}.1"), text.encode(), force=options.force)
    return OK
