"""Manual pages in the man(7) format, made from what the parsers describe."""

from __future__ import annotations

import re

from gdrkit import __version__
from gdrkit.cli.described import Described, Taken

_STATUS = "exit codes: "
_ESCAPES = str.maketrans(
    {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
)
_PARTS = re.compile(r"(?:;|,)\s+(?=\d+ |64 and above)")


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
        rows += [f".TP\n.BR gdr\\-{_text(name)} (1)\n{_text(line)}" for name, line in commands.items()]
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
    """What stands for a value; a line may break after each choice."""
    words = _text(one.value).replace(",", ",\\:")
    return f"\\fI{words}\\fR" if words else ""
