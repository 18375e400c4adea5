"""The help of argparse, in the layout of all help."""

from __future__ import annotations

import argparse

from gdrkit.cli.help_text import help_width, wrapped


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """A formatter without shutil: argparse creates one per option, and shutil imports every compressor."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=help_width())

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Each line of a description or an epilog, wrapped."""
        return "\n".join(wrapped(line, width) for line in text.splitlines()) + "\n"
