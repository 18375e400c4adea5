"""The example of a hand-over between two processes runs, over host memory."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "kv_handover.py"


@pytest.mark.parametrize("path", ["shared", "tcp"])
@pytest.mark.parametrize("size", [64 << 10, 3 << 20])
def test_every_block_arrives(path, size):
    command = [sys.executable, EXAMPLE, "--paths", path, "--block-bytes", str(size), "--blocks", "40"]
    done = subprocess.run([*command, "--per-second", "0"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: 40 blocks of {size} bytes, ")
