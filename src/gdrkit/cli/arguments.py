"""Options and output that all commands share."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from gdrkit.agent.streams import SafeStream, visible_json
from gdrkit.cli.exit import USAGE


class _Help(argparse.RawDescriptionHelpFormatter):
    """A formatter without shutil: argparse creates one per option, and shutil imports every compressor."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """The width of the terminal, as shutil.get_terminal_size() determines it."""
    if (columns := os.environ.get("COLUMNS", "")).isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, ValueError, OSError):  # closed, or not a terminal
        return 80


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that keeps the layout of examples and exits with USAGE on wrong usage."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"gdr {command}",
            description=description,
            epilog="examples:\n" + examples,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        self.add_argument("--debug", action="store_true", help="show the traceback of an internal error")

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """The options, given before, between or after the positional arguments."""
        return self.parse_intermixed_args(arguments)

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\n  see {self.prog} --help\n")
        raise SystemExit(USAGE)

    def target(self) -> None:
        """Add TARGET: anything that holds the evidence of a node."""
        self.add_argument(
            "target",
            nargs="?",
            metavar="TARGET",
            help="a root folder, a bundle of gdr collect, a sosreport, nvidia-bug-report.log.gz, "
            "an rdma_topo dump, or ssh://[user@]host; this machine if omitted",
        )

    def force(self) -> None:
        """Add --force."""
        self.add_argument("--force", action="store_true", help="replace an existing output file")

    def output(self) -> None:
        """Add --json."""
        self.add_argument("--json", action="store_true", help="write JSON to standard output")


def write(text: str, *, styled: bool = False) -> None:
    """Write to standard output; `styled` text has colours of ours, and what it quotes is `visible`."""
    if styled and isinstance(sys.stdout, SafeStream):
        sys.stdout.styled(text)
    else:
        sys.stdout.write(text)


def write_json(document: object, indent: int = 1) -> None:
    """Write a document to standard output as JSON: a struct, or bytes that are JSON already."""
    import msgspec

    encoded = document if isinstance(document, bytes) else msgspec.json.encode(document)
    write(visible_json(msgspec.json.format(encoded, indent=indent).decode()) + "\n")


def status(text: str) -> None:
    """Show progress in one line of a terminal on standard error; "" clears it."""
    if isinstance(sys.stderr, SafeStream) and sys.stderr.isatty():
        sys.stderr.status(text)


def can_ask() -> bool:
    """Whether there is a terminal on standard input to answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()


def print_notes(host: object) -> None:
    """Print the notes of a target to standard error: that it is truncated, that members were refused."""
    for note in getattr(host, "notes", ()):
        sys.stderr.write(f"note: {note}\n")
