"""Every code has a page generated from its rule, and generated files are up to date."""

import subprocess
import sys
from pathlib import Path

import pytest

from gdrkit.report.pages import HEADINGS, page, sections, titles
from gdrkit.rules import RULES

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_every_page_has_the_same_headings_in_the_same_order(rule):
    title, parts = sections(rule)
    assert 20 <= len(title) <= 200 and title.endswith(".")
    assert tuple(parts) == HEADINGS and all(parts[heading] for heading in HEADINGS[1:]), "no empty heading"
    assert [row[3:] for row in page(rule.code).splitlines() if row.startswith("## ")] == list(HEADINGS)


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
