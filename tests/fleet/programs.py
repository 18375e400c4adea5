"""Programs that stand for ssh and Slurm on this machine: scripts that run the command, or fail."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

NODE_OF = {"ssh": 'node=; for word; do case "$last" in --) node="$word";; esac; last="$word"; done'}
"""ssh: the word after `--` is the node, the last word the command."""


def install(folder: Path, name: str, script: str, monkeypatch) -> None:
    """Put a shell script into PATH under the name of a program."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{NODE_OF.get(name, '')}\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def sends_file(path: Path) -> str:
    """A command of the shell that takes the collector and sends a bundle."""
    return f"cat >/dev/null; exec cat {shlex.quote(str(path))}"


def runs_here() -> str:
    """A command of the shell that runs the last word, with this Python as python3."""
    return f'python3() {{ exec {shlex.quote(sys.executable)} "$@"; }}; eval "$last"'
