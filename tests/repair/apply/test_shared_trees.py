"""Trees in which a local user can write while root repairs them: folders are replaced by links meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gdrkit.repair.apply import root_fs
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS

USER = 65534
FILE = "/etc/modprobe.d/x.conf"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root's rights are needed to give files away")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/etc/modprobe.d").mkdir(parents=True)
    (tmp_path / "tree" / FILE[1:]).write_bytes(b"old")
    return tmp_path / "tree"


@pytest.fixture
def outside(tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that takes the place of modprobe.d when root has found it, and is about to open a file."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.conf").write_bytes(b"secret")
    real = os.open

    def swap_and_open(path: str, flags: int, *arguments: int, **more: int) -> int:
        folder = tree / "etc/modprobe.d"
        if not folder.is_symlink() and str(path).startswith(str(folder)):
            folder.rename(tree / "etc/aside")
            folder.symlink_to(tmp_path / "outside")
        return real(path, flags, *arguments, **more)

    monkeypatch.setattr(root_fs.os, "open", swap_and_open)
    return tmp_path / "outside"


@pytest.mark.parametrize("shared", ["tree", "tree/etc", "tree/etc/modprobe.d"])
@pytest.mark.parametrize("by", ["owner", 0o720, 0o702, 0o777])
def test_root_works_in_no_folder_that_a_user_can_replace(tree, outside, shared, by):
    folder = tree.parent / shared
    if by == "owner":
        os.chown(folder, USER, USER)
    else:
        folder.chmod(by)
    root = RootFS(str(tree))
    for work in (
        lambda: root.write(FILE, b"new", FileState(path=FILE), "t"),
        lambda: root.read(FILE),
        lambda: root.restore(FileState(path=FILE), b"", "t"),
        lambda: root.remove(FILE),
        lambda: root.make_folder("/etc/modprobe.d/below"),
    ):
        with pytest.raises(ApplyError, match="others can write to it: not safe for root"):
            work()
    assert [path.name for path in outside.iterdir()] == ["x.conf"]
    assert (outside / "x.conf").read_bytes() == b"secret"


def test_a_folder_above_the_tree_is_checked_too(tree):
    os.chown(tree.parent, USER, USER)
    try:
        with pytest.raises(ApplyError, match="not safe for root"):
            RootFS(str(tree)).read(FILE)
    finally:
        os.chown(tree.parent, 0, 0)


def test_a_tree_of_roots_alone_is_repaired(tree):
    root = RootFS(str(tree))
    root.write(FILE, b"new", FileState(path=FILE, kind="file", mode=0o644), "t")
    assert root.read(FILE) == b"new"


def test_who_is_not_root_works_in_the_folders_of_others(tree, monkeypatch):
    """Nobody gains rights by that: only root's work in such a folder could be led elsewhere."""
    os.chown(tree / "etc", USER, USER)
    with pytest.raises(ApplyError, match=f"belongs to user {USER}"):
        RootFS(str(tree)).read(FILE)
    monkeypatch.setattr(root_fs.os, "geteuid", lambda: USER + 1)
    assert RootFS(str(tree)).read(FILE) == b"old"
