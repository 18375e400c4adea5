"""A tool that is asked for help prints it: it writes, builds and downloads nothing."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.test_linters import ROOT

TAKES_WORDS = {"acs_witness", "plain_english", "rm_abi", "schema_data", "verbs_abi"}
"""Tools that take words as they are, and do nothing without."""
TOOLS = sorted(
    path.stem
    for path in (ROOT / "tools").glob("*.py")
    if any(
        isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        for node in ast.parse(path.read_text()).body
    )
)


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool not in TAKES_WORDS])
def test_help_is_printed_and_nothing_else_is_done(tool):
    done = subprocess.run(
        [sys.executable, "-m", f"tools.{tool}", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and done.stdout.startswith("usage: "), done.stderr
