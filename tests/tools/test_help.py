"""A tool that is asked for help prints it: it writes, builds and downloads nothing."""

from __future__ import annotations

import ast
import runpy
import sys

import pytest

from tests.test_linters import ROOT
from tests.work import within

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
def test_help_is_printed_and_nothing_else_is_done(tool, monkeypatch, capsys):
    """As `python -m` runs it, but in this process, which has most of what they import."""
    monkeypatch.delitem(sys.modules, f"tools.{tool}", raising=False)
    monkeypatch.setattr(sys, "argv", [f"{tool}.py", "--help"])
    with within(60), pytest.raises(SystemExit) as ended:
        runpy.run_module(f"tools.{tool}", run_name="__main__")
    assert not ended.value.code and capsys.readouterr().out.startswith("usage: ")
