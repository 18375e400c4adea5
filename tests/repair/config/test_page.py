"""The examples in docs/config.md are what `gdr config` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.shown import EXAMPLES as FILES

from gdrkit.cli import main
from tests.evidence_nodes import build

PAGE = (Path(__file__).parents[3] / "docs" / "config.md").read_text()
EXAMPLES = re.findall(r"```console\n\$ gdr (.*)\n((?:.*\n)*?)```", PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the page uses."""
    here = tmp_path_factory.mktemp("page")
    (recipe,) = re.findall(r"```yaml\n((?:.*\n)*?)```", PAGE)
    (here / "recipe.yaml").write_text(recipe)
    (here / "nccl.conf").write_bytes((FILES / "nccl.conf").read_bytes())
    (here / "node.tar.gz").symlink_to(build("acs-redirect", tmp_path_factory.mktemp("node")))
    return here


def test_there_are_examples():
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_is_what_is_printed(command, output, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    main(command.split())
    assert capsys.readouterr().out == output
