"""Every code has a page generated from its rule, and generated files are up to date."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gdrkit.transport
from gdrkit.catalogue import every_rule
from gdrkit.cli.schema import DOCUMENTS, document_of, schema_of
from gdrkit.report.pages import HEADINGS, IN_A_POD, IN_SLURM, page, sections, titles

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_every_page_has_the_same_headings_in_the_same_order(rule):
    title, parts = sections(rule)
    assert 20 <= len(title) <= 200 and title.endswith(".")
    for label in (IN_SLURM, IN_A_POD):
        parts.pop(label, None)  # a labelled paragraph of "What to do", which has it too
    assert tuple(parts) == HEADINGS and all(parts[heading] for heading in HEADINGS[1:]), "no empty heading"
    assert [row[3:] for row in page(rule.code).splitlines() if row.startswith("## ")] == list(HEADINGS)


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_a_path_with_asterisks_stands_in_backticks(rule):
    """Markdown takes two of them for emphasis, and a reader loses both."""
    plain = re.sub(r"`[^`]*`", "", page(rule.code))
    assert not [words for words in plain.split("\n\n") if words.count("*") > 1]


CHANGES = (
    r"modprobe (?!-c\b|--show)|rmmod |depmod\b|dkms (?!status)|systemctl (?!status|is-|show|list|cat)|"
    r"/etc/init\.d/|ip link set|rdma link (?:add|delete)|rdma system set|ethtool -[A-Z]|mlxlink|mlxconfig|"
    r"mlxfwmanager|setpci|mokutil --(?:import|delete|reset)|nvidia-smi -(?:mig|pm|r)\b|nvidia-modprobe|"
    r"sysctl -w|ldconfig$|dmesg|(?:apt|apt-get|dnf|zypper) (?:install|remove|upgrade)"
)
"""Commands that only root may run: they change the system, or read registers or the kernel's log."""


def without_sudo(words: str) -> list[str]:
    """The commands in a section that fail for a user who is not root."""
    commands = (" ".join(found.split()) for found in re.findall(r"`([^`]+)`", words))
    return [
        part
        for command in commands
        for part in re.split(r" (?:&&|;|\|) ", command)
        if re.match(CHANGES, part) or re.search(r"> /etc", part)
    ]


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_a_command_that_needs_root_says_sudo(rule):
    """In "What to do", which the first screen quotes; other sections also quote what a reader has seen."""
    assert without_sudo(sections(rule)[1]["What to do"]) == []


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("Run `modprobe nvidia-peermem`.", ["modprobe nvidia-peermem"]),
        ("Run `dmesg | grep mlx5`.", ["dmesg"]),
        ("`echo a > /etc/modules`", ["echo a > /etc/modules"]),
        ("`sudo ip link set <interface> up`, `modprobe -c`, `rdma link`, `dkms status`", []),
    ],
)
def test_the_scan_tells_what_needs_root(words, found):
    assert without_sudo(words) == found


def test_generated_pages_and_the_schema_are_up_to_date():
    run = subprocess.run(
        [sys.executable, ROOT / "tools/pages.py", "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, f"run `uv run python tools/pages.py`; out of date: {run.stdout}"


def test_pictures_are_what_gdr_draws():
    run = subprocess.run(
        [sys.executable, "-m", "tools.pictures", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, f"run `uv run --no-sync python -m tools.pictures`; out of date: {run.stdout}"


def test_references_are_what_the_code_holds():
    run = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, f"run `uv run python -m tools.reference`; out of date: {run.stdout}"


DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_page_of_a_document_has_every_object_of_its_schema_and_every_link_has_its_heading(name):
    text = (DOCS / "json" / f"{name}.md").read_text()
    schema = json.loads(schema_of(document_of(name), name))
    keys = [key for one in schema["$defs"].values() for key in one.get("properties", ())]
    assert keys and [key for key in keys if f"| `{key}` |" not in text] == []
    headings = {row[3:].lower().replace(" ", "-") for row in text.splitlines() if row.startswith("## ")}
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) == headings


def test_the_meaning_of_a_key_is_the_comment_in_the_source_and_values_are_named():
    text = (DOCS / "json" / "report.md").read_text()
    rows = text.splitlines()
    assert "| `cause` | [finding code](../codes/index.md) or null | of the problem to solve first;" in text
    assert "| `met` | `no` or `unknown` or `yes` |  |" in rows
    assert "At `plan[].steps[]`." in rows


def test_every_metric_in_the_source_and_every_public_name_has_its_row():
    sources = [path.read_text() for path in (ROOT / "src/gdrkit").rglob("metric*.py")]
    names = {name for text in sources for name in re.findall(r'"(gdr_\w+)"', text)}
    assert len(names) > 20
    page_of_metrics = (DOCS / "metrics.md").read_text()
    assert [name for name in names if f"| `{name}` |" not in page_of_metrics] == []
    api = (DOCS / "transport-api.md").read_text()
    assert [name for name in gdrkit.transport.__all__ if f"## {name}\n" not in api] == []
    assert "### Connection.send()" in api and "timeout: float | None" in api


def test_the_index_lists_every_code_by_layer():
    layers = [row.layer for row in titles()]
    order = list(dict.fromkeys(layers))
    assert layers == sorted(layers, key=order.index)
    assert {row.code for row in titles()} == {rule.code for rule in every_rule()}
