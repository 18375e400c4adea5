"""New files get the SELinux context that restorecon gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.repair.apply import commands, labels, store
from gdrkit.repair.apply.executor import Executor
from gdrkit.repair.apply.journal import new_run
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import WriteFile


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(store, "MACHINE", str(tmp_path / "state/machine"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/etc").mkdir(parents=True)
    return tmp_path / "tree"


class Machine(RootFS):
    """A tree that is treated as the running machine."""

    is_machine = True  # type: ignore[assignment]


@pytest.fixture
def restorecon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The log of a fake restorecon, on a machine that has SELinux."""
    folder = tmp_path / "sbin"
    folder.mkdir()
    program = folder / "restorecon"
    program.write_text(f'#!/bin/sh\nfor path; do echo "$path"; done >>{tmp_path}/log\n')
    program.chmod(0o755)
    monkeypatch.setattr(commands, "SEARCH_PATH", str(folder))
    monkeypatch.setattr(labels, "SELINUX", str(folder))
    return tmp_path / "log"


def write(root: RootFS, path: str) -> str:
    """Write a file as a step does; the note in the journal."""
    journal = new_run(root, "20260101-000000")
    journal.open()
    Executor(journal, Passwords(), lambda _: None).execute(0, 0, WriteFile(path=path, content="x", why="x"))
    done = journal.done_of(0, 0)
    journal.close()
    assert done is not None
    return done.note


def test_a_new_file_and_its_new_folders_get_their_selinux_context(tree, restorecon):
    root = Machine(str(tree))
    assert "restorecon" in write(root, "/etc/modprobe.d/x.conf")
    assert restorecon.read_text().split() == [f"{tree}/etc/modprobe.d", f"{tree}/etc/modprobe.d/x.conf"]


def test_a_replaced_file_and_a_machine_without_selinux_get_none(tree, restorecon, monkeypatch, tmp_path):
    (tree / "etc/x").write_text("old")
    assert write(Machine(str(tree)), "/etc/x") == ""
    assert write(RootFS(str(tree)), "/etc/y") == ""  # another tree: this machine's policy does not apply
    monkeypatch.setattr(labels, "SELINUX", str(tmp_path / "none"))
    assert write(Machine(str(tree)), "/etc/z") == ""
    assert not restorecon.exists()


def test_what_restorecon_says_is_noted(tree, restorecon):
    program = restorecon.parent / "sbin/restorecon"
    assert write(Machine(str(tree)), "/etc/x") == f"SELinux context set by {program}"
    program.write_text("#!/bin/sh\necho first; echo 'no such policy'; exit 255\n")
    assert write(Machine(str(tree)), "/etc/y") == f"{program}: exit code 255: no such policy"
    program.write_text("#!/bin/sh\nexit 1\n")
    assert write(Machine(str(tree)), "/etc/z") == f"{program}: exit code 1: "
