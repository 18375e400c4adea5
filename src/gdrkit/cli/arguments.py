"""What the commands' options have in common."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from gdrkit.cli.exit import USAGE


class _Help(argparse.RawDescriptionHelpFormatter):
    """argparse makes one for each option that it adds, and takes its width from shutil, which imports all
    that packs files."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    """As shutil.get_terminal_size() finds them."""
    if (told := os.environ.get("COLUMNS", "")).isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (AttributeError, ValueError, OSError):  # closed, or no terminal
        return 80


class Parser(argparse.ArgumentParser):
    """argparse with examples kept as they are written, and our exit code for wrong usage."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"gdr {command}",
            description=description,
            epilog="examples:\n" + examples,
            formatter_class=_Help,
            allow_abbrev=False,
        )
        self.add_argument("--debug", action="store_true", help="show the traceback of a fault in gdrkit")

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message}\n  see {self.prog} --help\n")
        raise SystemExit(USAGE)

    def target(self) -> None:
        """Add TARGET: anything that holds a node's evidence."""
        self.add_argument(
            "target",
            nargs="?",
            metavar="TARGET",
            help="this machine if left out; else a folder that looks like /, a bundle of gdr collect, "
            "a sosreport, nvidia-bug-report.log.gz, an rdma_topo dump, or ssh://[user@]host",
        )

    def output(self) -> None:
        """Add --json."""
        self.add_argument("--json", action="store_true", help="write JSON to standard output")


def write(text: str) -> None:
    """Write to standard output, with characters that its encoding lacks replaced."""
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))


def print_notes(host: object) -> None:
    """Say on standard error what was odd about a target: that it was cut off, that members were refused."""
    for note in getattr(host, "notes", ()):
        sys.stderr.write(f"note: {note}\n")
