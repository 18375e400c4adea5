"""Every code has a page made from its rule, and what is generated is up to date."""

import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.report.pages import page, titles
from gdrkit.rules import RULES

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_says_what_it_is_and_who_says_so(rule):
    text = page(rule.code)
    title = text.splitlines()[2]
    assert 20 <= len(title) <= 200 and title.endswith(".")
    assert "Source" in text, "no claim without a source"
    assert any(word in text for word in ("Fix", "How to fix")), "what to do"


def test_generated_pages_and_the_schema_are_up_to_date():
    run = subprocess.run(
        [sys.executable, ROOT / "tools/pages.py", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, f"run `uv run python tools/pages.py`; out of date: {run.stdout}"


def test_the_index_lists_every_code_by_layer():
    layers = [row.layer for row in titles()]
    order = list(dict.fromkeys(layers))
    assert layers == sorted(layers, key=order.index)
    assert {row.code for row in titles()} == {rule.code for rule in RULES}
