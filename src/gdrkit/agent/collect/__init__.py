"""`gdr collect`: write the evidence of a node into one archive.

The package needs only Python 3.8 and its standard library, and imports only from gdrkit.agent: the same
files run from the installed gdrkit, from `gdr-collect.pyz`, and over ssh on a machine with only Python.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """Run `gdr collect` with these arguments (the process's own if None); returns the exit code."""
    from .command import main as run

    return run(argv)
