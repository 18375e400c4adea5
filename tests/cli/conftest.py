"""What tests of the two commands that read a log share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gdrkit.cli import main


@pytest.fixture
def both(tmp_path: Path, capsys):
    """The exit codes and documents of both commands for one text."""

    def run(text: str):
        path = tmp_path / "job.log"
        path.write_text(text)
        found = []
        for command in ("nccl", "explain"):
            code = main([command, "--json", str(path)])
            found.append((code, json.loads(capsys.readouterr().out)))
        return found

    return run
