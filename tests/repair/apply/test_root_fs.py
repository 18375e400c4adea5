"""Files below a root are replaced, restored, and never reached outside of it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import FileState, RootFS

OTHER_UID = 4711 if os.geteuid() == 0 else os.geteuid()
"""Another owner, if we may change owners."""


def test_a_replaced_and_a_restored_file_keep_owner_mode_and_attributes(tmp_path):
    path = tmp_path / "etc/x.conf"
    path.parent.mkdir()
    path.write_bytes(b"old")
    os.chown(path, OTHER_UID, -1)
    path.chmod(0o640)
    with contextlib.suppress(OSError):  # not on every file system
        os.setxattr(path, "user.note", b"kept")
    root = RootFS(str(tmp_path))
    before = root.state("/etc/x.conf")
    root.write("/etc/x.conf", b"new", before, "t")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o7777 == 0o640
    assert path.stat().st_uid == OTHER_UID
    os.chown(path, os.geteuid(), -1)
    assert root.state("/etc/x.conf").attributes == before.attributes
    root.restore(before, b"old", "t")
    assert root.state("/etc/x.conf") == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["x.conf"]


def test_a_replaced_link_is_restored_as_a_link(tmp_path):
    (tmp_path / "target").write_bytes(b"shared")
    (tmp_path / "link").symlink_to("target")
    os.chown(tmp_path / "link", OTHER_UID, -1, follow_symlinks=False)
    root = RootFS(str(tmp_path))
    before = root.state("/link")
    root.write("/link", b"own", FileState(path="/link", mode=0o644, uid=os.geteuid(), gid=os.getegid()), "t")
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"shared"
    root.restore(before, b"", "t")
    assert (tmp_path / "link").readlink() == Path("target")
    assert (tmp_path / "link").lstat().st_uid == OTHER_UID


def test_content_follows_links_inside_the_root(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/real.conf").write_bytes(b"content")
    (tmp_path / "etc/a").symlink_to("/usr/real.conf")
    (tmp_path / "etc/b").symlink_to("a")
    root = RootFS(str(tmp_path))
    assert root.content("/etc/b") == b"content" and root.content("/etc/none") == b""


def test_absolute_links_in_folders_stay_inside_the_root(tmp_path):
    folder = tmp_path / "root"
    (folder / "usr/lib").mkdir(parents=True)
    (folder / "lib").symlink_to("/usr/lib")
    (folder / "out").symlink_to("../../..")
    root = RootFS(str(folder))
    assert root.real("/lib/modules.dep") == str(folder / "usr/lib/modules.dep")
    assert root.real("/out/etc/passwd") == str(folder / "etc/passwd")


def test_a_loop_of_links_is_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ApplyError, match="too many symbolic links"):
        RootFS(str(tmp_path)).real("/a/x")


def test_a_folder_in_place_of_a_file_is_an_error(tmp_path):
    (tmp_path / "etc").mkdir()
    with pytest.raises(ApplyError, match="not a regular file"):
        RootFS(str(tmp_path)).state("/etc")


def test_missing_folders_are_listed_outermost_first(tmp_path):
    assert RootFS(str(tmp_path)).missing_folders("/a/b/c.conf") == ("/a", "/a/b")


def test_restoring_a_file_removes_the_temporary_file_of_a_crash(tmp_path):
    root = RootFS(str(tmp_path))
    (tmp_path / "x").write_bytes(b"same")
    before = root.state("/x")
    leftover = root.temporary("/x", "run")
    Path(leftover).write_bytes(b"half")
    root.restore(before, b"same", "run")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
