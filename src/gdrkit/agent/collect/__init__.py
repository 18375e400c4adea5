"""`gdr collect`: write what a node is judged by into one archive.

Standard library only, Python 3.8 and later, and nothing of ours from outside this package: the same files
run from the installed gdrkit, from `gdr-collect.pyz`, and through ssh on a machine with nothing but Python.
"""

from __future__ import annotations

from typing import List, Optional


def main(argv: Optional[List[str]] = None) -> int:
    """Run `gdr collect` with these arguments (the process's own if None); returns the exit code."""
    from .command import main as run

    return run(argv)
