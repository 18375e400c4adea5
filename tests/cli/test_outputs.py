"""Every option that writes a file: where it can have no place, what is there stays, and a line says why."""

from __future__ import annotations

import os
import re
import stat
from importlib import import_module

import pytest

from gdrkit.cli import COMMANDS, main
from gdrkit.cli.exit import CANNOT_CREATE, USAGE
from tests.evidence_nodes import laid_down

LOOPBACK = ("bench", "loopback", "--paths", "shared", "--sizes", "4K")
CALLS = {
    ("bench", "--csv"): LOOPBACK,
    ("bench", "--plot"): LOOPBACK,
    ("collect", "--output"): ("collect",),
    ("collect", "--pyz"): ("collect",),
    ("config", "--output"): ("config", "nccl-env", "NODE"),
    ("example", "--output"): ("example", "h100"),
    ("expect", "--output"): ("expect", "NODE"),
    ("export", "--output"): ("export", "NODE"),
    ("fleet report", "--output"): ("fleet", "report", "NODE"),
    ("man", "--output"): ("man",),
    ("report", "--output"): ("report", "NODE"),
    ("topo", "--write-nccl-xml"): ("topo", "NODE"),
}
FOLDERS = (("man", "--output"),)
"""They write a folder, and make it."""
WITHOUT_FORCE = ("export", "--output")
FILES = [pytest.param(key, id=" ".join(key)) for key in CALLS if key not in FOLDERS]


def call(key: tuple[str, str], path: object, *more: str) -> int:
    node = str(laid_down("peermem-blacklisted"))
    return main([*(node if word == "NODE" else word for word in CALLS[key]), key[1], str(path), *more])


def test_every_option_that_writes_is_tried_here():
    found = set()
    for name in COMMANDS:
        for action in import_module(f"gdrkit.cli.{name.replace(' ', '_')}").parser()._actions:
            if (
                action.option_strings
                and re.search(r"\b(?:write|plot)\b", action.help or "")
                and action.metavar
            ):
                found.add((name, action.option_strings[-1]))
    assert found == CALLS.keys()


FORCED = [param for param in FILES if param.values[0] != WITHOUT_FORCE]


@pytest.mark.parametrize(
    ("key", "force"),
    [pytest.param(*one.values, force, id=f"{one.id}{' '.join(('', *force))}")
     for force, some in (((), FILES), (("--force",), FORCED)) for one in some],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["folder", "link", "link to nothing", "pipe", "missing"])
def test_what_is_not_a_file_is_never_replaced(key, force, kind, tmp_path, capsys):
    """The advice to replace it would be none: --force replaces files alone."""
    path = tmp_path / ("no/f" if kind == "missing" else "f")
    (tmp_path / "mine").write_text("mine\n")
    match kind:
        case "folder":
            path.mkdir()
        case "link" | "link to nothing":
            path.symlink_to(tmp_path / ("mine" if kind == "link" else "none"))
        case "pipe":
            os.mkfifo(path)
    before = {name.name: stat.S_IFMT(name.lstat().st_mode) for name in tmp_path.iterdir()}
    assert call(key, path, *force) in (CANNOT_CREATE, USAGE)  # what is not a topology is refused first
    error = capsys.readouterr().err

    assert re.search(rf"^gdr {key[0]}: (?:cannot write )?{path}\b", error, re.MULTILINE)
    assert "--force" not in error
    assert {name.name: stat.S_IFMT(name.lstat().st_mode) for name in tmp_path.iterdir()} == before
    assert (tmp_path / "mine").read_text() == "mine\n"


@pytest.mark.parametrize("key", FILES)
def test_a_file_is_replaced_only_if_that_is_asked_for(key, tmp_path, capsys):
    path = tmp_path / "f"
    path.write_text("mine\n")

    assert call(key, path) == USAGE
    assert path.read_text() == "mine\n" and f"{path} exists" in capsys.readouterr().err


def test_a_picture_without_a_measurement_is_not_written(tmp_path, capsys):
    path = tmp_path / "f.svg"
    path.write_text("mine\n")
    call(("bench", "--plot"), path, "--force")
    told = capsys.readouterr()
    if " not measured" not in told.out:
        pytest.skip("this machine has a GPU")

    assert told.err.endswith(f"note: {path} was not written: no bandwidth was measured\n")
    assert path.read_text() == "mine\n"
