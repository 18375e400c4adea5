"""What each command takes, read from its parser: for manual pages, completion and the reference."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple


class Taken(NamedTuple):
    """An option or a positional argument of a command."""

    dest: str
    names: tuple[str, ...]
    """`-o` and `--output`; empty for a positional argument."""
    value: str
    """The placeholder of its value, such as FILE or `{a,b}`; empty for an option without one."""
    choices: tuple[str, ...]
    optional: bool
    """Whether the value may be left out."""
    many: bool
    """Whether it takes several values."""
    help: str


class Described(NamedTuple):
    """A command as its parser describes it."""

    name: str
    summary: str
    text: str
    options: tuple[Taken, ...]
    arguments: tuple[Taken, ...]
    examples: tuple[tuple[str, str], ...]
    """Commands, each with its comment or "". """
    notes: tuple[str, ...]
    """The paragraphs after the examples, each of one or more lines."""


def described(command: str) -> Described:
    """A command by its name."""
    from gdrkit.cli import COMMANDS, module_of

    parser: argparse.ArgumentParser = import_module(module_of(command)).parser()
    taken = [_taken(action) for action in parser._actions if action.help != argparse.SUPPRESS]
    examples, *notes = (parser.epilog or "").removeprefix("examples:\n").rstrip().split("\n\n")
    return Described(
        command,
        COMMANDS[command],
        " ".join((parser.description or "").split()),
        tuple(one for one in taken if one.names),
        tuple(one for one in taken if not one.names),
        _examples(examples),
        tuple(notes),
    )


def _taken(action: argparse.Action) -> Taken:
    choices = tuple(map(str, action.choices or ()))
    value = ""
    if action.nargs != 0:
        default = f"{{{','.join(choices)}}}" if choices else action.dest.upper()
        value = " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar or default
    return Taken(
        action.dest,
        tuple(action.option_strings),
        value,
        choices,
        action.nargs in ("?", "*"),
        action.nargs in ("*", "+"),
        (action.help or "").replace("%%", "%"),
    )


def _examples(text: str) -> tuple[tuple[str, str], ...]:
    """Each example with its comment, which follows it after spaces or in the next line."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        command, _, comment = line.strip().partition("  ")
        if line.startswith(" " * 8) and found:
            found[-1] = found[-1][0], line.strip()
        else:
            found.append((command, comment.strip()))
    return tuple(found)
