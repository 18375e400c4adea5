"""`gdr man [COMMAND]`: manual pages, made from the same parsers as --help."""

from __future__ import annotations

import os

from gdrkit import __version__
from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.described import Described, Taken
from gdrkit.cli.exit import CANNOT_CREATE, OK
from gdrkit.formats.regex import regex


def parser() -> Parser:
    from gdrkit.cli import COMMANDS

    parser = Parser(
        "man",
        "Print the manual page of gdr, or of a command, in the format that man and groff read; or write all "
        "of them into a folder.",
        "  gdr man fleet-doctor | man -l -               read one\n"
        "  gdr man -o ~/.local/share/man/man1           write all, where `man gdr` finds them\n",
    )
    names = tuple(map(page_name, COMMANDS))
    parser.add_argument(
        "command",
        nargs="?",
        choices=names,
        metavar="COMMAND",
        help="a command, such as doctor or fleet-doctor; gdr itself if omitted",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="write every page into this folder")
    parser.force("--output")
    return parser


def main(arguments: list[str]) -> int:
    from gdrkit.cli import COMMANDS
    from gdrkit.cli.described import described

    options = parser().parse(arguments)
    if options.output is None:
        named = {page_name(command): command for command in COMMANDS}
        write(page_of(described(named[options.command])) if options.command else overview())
        return OK
    if options.command:
        parser().error("--output writes every page; omit the command")
    from gdrkit.cli.files import OutputRefused, write_output

    try:
        os.makedirs(options.output, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        words = f"cannot create {options.output}: {(reason or str(error)).lower()}"
        raise OutputRefused(words, code=CANNOT_CREATE) from None
    pages = {"gdr": overview()} | {f"gdr-{page_name(name)}": page_of(described(name)) for name in COMMANDS}
    for name, text in pages.items():
        write_output(os.path.join(options.output, f"{name}.1"), text.encode(), force=options.force)
    return OK


def page_name(command: str) -> str:
    """The name of a command's page after `gdr-`."""
    return command.replace(" ", "-")


# -- roff -------------------------------------------------------------------------------------------


_STATUS = "exit codes: "
_ESCAPES = str.maketrans(
    {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
)
_PARTS = regex(r"(?:;|,)\s+(?=\d+ |64 and above)")


def page_of(command: Described) -> str:
    """The manual page of a command: groff's man(7)."""
    name = f"gdr {command.name}"
    status = [note.removeprefix(_STATUS) for note in command.notes if note.startswith(_STATUS)]
    notes = [note for note in command.notes if not note.startswith(_STATUS)]
    rows = [
        *_head(name.replace(" ", "-"), command.summary),
        ".SH SYNOPSIS",
        f".B {name}",
        *(_brief(one) for one in (*command.options, *command.arguments)),
        ".SH DESCRIPTION",
        _text(command.text),
        *(f".PP\n{_text(line)}" for note in notes for line in note.splitlines()),
    ]
    for title, taken in (("ARGUMENTS", command.arguments), ("OPTIONS", command.options)):
        if taken:
            rows += [f".SH {title}", *(f".TP\n{_names(one)}\n{_text(one.help)}" for one in taken)]
    if status:
        rows.append(".SH EXIT STATUS")
        rows.append("\n.PP\n".join(_text(part) for one in status for part in _PARTS.split(one)))
    rows += [".SH EXAMPLES", *(_example(line, comment) for line, comment in command.examples)]
    return "\n".join((*rows, ".SH SEE ALSO", ".BR gdr (1)\n"))


def overview() -> str:
    """The manual page of gdr itself, with a line for each command."""
    from gdrkit.cli import GROUPS

    rows = [
        *_head("gdr", "does GPU memory reach the network directly on this machine"),
        ".SH SYNOPSIS\n.B gdr\n.I COMMAND\n[\\fIoptions\\fR]",
        ".SH DESCRIPTION",
        "Does GPU memory reach the network directly on this machine? If not, why, and what would fix it?\n"
        f"Only\n.B {_text('gdr fix --apply')}\nchanges a machine.\n.SH COMMANDS",
    ]
    for title, commands in GROUPS.items():
        rows.append(f".SS {title}")
        for name, line in commands.items():
            rows.append(f".TP\n.BR gdr\\-{_text(page_name(name))} (1)\n{_text(line)}")
    return "\n".join(rows) + "\n"


def _head(name: str, summary: str) -> tuple[str, ...]:
    title = f'.TH {_text(name.upper())} 1 "" "gdrkit {__version__}" "gdrkit"'
    return title, ".nh\n.ad l", f".SH NAME\n{_text(name)} \\- {_text(summary)}"


def _brief(one: Taken) -> str:
    """An option or an argument in the synopsis."""
    value = _value(one)
    if not one.names:
        more = "\\ ..." if one.many else ""
        return f"[{value}{more}]" if one.optional else value + more
    return f"[\\fB{_text(one.names[-1])}\\fR" + (f"\\ {value}]" if value else "]")


def _names(one: Taken) -> str:
    """All names of an option, with its value."""
    names = ", ".join(f"\\fB{_text(name)}\\fR" for name in one.names)
    value = _value(one)
    return " ".join(part for part in (names, f"[{value}]" if value and one.optional else value) if part)


def _text(text: str) -> str:
    """Text without what groff takes as its own: groff_char(7), and a dot at the start of a line."""
    text = text.translate(_ESCAPES)
    return f"\\&{text}" if text.startswith(".") else text


def _example(line: str, comment: str) -> str:
    """An example; .PD, which changes nothing, in place of a comment: mandoc reports a .TP without text."""
    return f".TP\n.B {_text(line)}\n{_text(comment) or '.PD'}"


def _value(one: Taken) -> str:
    """The placeholder of a value; a line may break after each choice."""
    words = _text(one.value).replace(",", ",\\:")
    return f"\\fI{words}\\fR" if words else ""
