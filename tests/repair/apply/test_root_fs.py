"""Files below a root: replaced at once, put back as they were, never outside."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import FileState, RootFS

SOMEBODY = 4711 if os.geteuid() == 0 else os.geteuid()
"""Another owner, where we may give files away."""


def test_a_file_keeps_owner_mode_and_attributes_when_it_is_replaced_and_when_it_is_put_back(tmp_path):
    path = tmp_path / "etc/x.conf"
    path.parent.mkdir()
    path.write_bytes(b"old")
    os.chown(path, SOMEBODY, -1)
    path.chmod(0o640)
    with contextlib.suppress(OSError):  # not on every file system
        os.setxattr(path, "user.note", b"kept")
    place = RootFS(str(tmp_path))
    before = place.state("/etc/x.conf")
    place.write("/etc/x.conf", b"new", before, "t")
    assert path.read_bytes() == b"new" and path.stat().st_mode & 0o7777 == 0o640
    assert path.stat().st_uid == SOMEBODY
    os.chown(path, os.geteuid(), -1)
    assert place.state("/etc/x.conf").attributes == before.attributes
    place.restore(before, b"old", "t")
    assert place.state("/etc/x.conf") == before
    assert sorted(p.name for p in path.parent.iterdir()) == ["x.conf"]


def test_a_link_is_replaced_and_comes_back_as_a_link(tmp_path):
    (tmp_path / "target").write_bytes(b"shared")
    (tmp_path / "link").symlink_to("target")
    os.chown(tmp_path / "link", SOMEBODY, -1, follow_symlinks=False)
    place = RootFS(str(tmp_path))
    before = place.state("/link")
    place.write(
        "/link", b"own", FileState(path="/link", mode=0o644, uid=os.geteuid(), gid=os.getegid()), "t"
    )
    assert not (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"shared"
    place.restore(before, b"", "t")
    assert (tmp_path / "link").readlink() == Path("target")
    assert (tmp_path / "link").lstat().st_uid == SOMEBODY


def test_what_a_reader_gets_comes_through_links_inside_the_root(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr/real.conf").write_bytes(b"content")
    (tmp_path / "etc/a").symlink_to("/usr/real.conf")
    (tmp_path / "etc/b").symlink_to("a")
    place = RootFS(str(tmp_path))
    assert place.content("/etc/b") == b"content" and place.content("/etc/none") == b""


def test_absolute_links_in_folders_stay_inside_the_root(tmp_path):
    root = tmp_path / "root"
    (root / "usr/lib").mkdir(parents=True)
    (root / "lib").symlink_to("/usr/lib")
    (root / "out").symlink_to("../../..")
    place = RootFS(str(root))
    assert place.real("/lib/modules.dep") == str(root / "usr/lib/modules.dep")
    assert place.real("/out/etc/passwd") == str(root / "etc/passwd")


def test_links_that_go_round_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(ApplyError, match="too many links"):
        RootFS(str(tmp_path)).real("/a/x")


def test_a_folder_where_a_file_should_be_is_an_error_and_stays(tmp_path):
    (tmp_path / "etc").mkdir()
    with pytest.raises(ApplyError, match="not a regular file"):
        RootFS(str(tmp_path)).state("/etc")


def test_missing_folders_are_named_the_outermost_first(tmp_path):
    assert RootFS(str(tmp_path)).missing_folders("/a/b/c.conf") == ("/a", "/a/b")


def test_a_leftover_of_a_crash_goes_when_the_file_is_put_back(tmp_path):
    place = RootFS(str(tmp_path))
    (tmp_path / "x").write_bytes(b"same")
    before = place.state("/x")
    leftover = place.temporary("/x", "run")
    Path(leftover).write_bytes(b"half")
    place.restore(before, b"same", "run")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
