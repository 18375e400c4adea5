"""Files below a root are replaced, restored, and never reached outside of it."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

import pytest

from gdrkit.repair.apply.entries import FileState, open_regular, temporary
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.root_fs import RootFS

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


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("/a/b", "a/b"), ("/a/../c", "c"), ("/a/b/../../c", "c"), ("/../c", "c"), ("/a/./b/..", "a"),
        ("/up/c", "c"), ("/a/up/b", "a/b"), ("/a/root/c", "c"),
    ],
)  # fmt: skip
def test_two_dots_lead_to_the_folder_above_and_never_above_the_root(tmp_path, path, real):
    for folder in ("a/b", "c", "a/c"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "up").symlink_to("a/b/../..")
    (tmp_path / "a/up").symlink_to("b/..")
    (tmp_path / "a/root").symlink_to("/")
    with RootFS(str(tmp_path)).folder(path) as fd:
        assert os.path.samestat(os.fstat(fd), (tmp_path / real).stat())


def test_what_a_killed_write_left_behind_is_replaced(tmp_path):
    root = RootFS(str(tmp_path))
    like = FileState(path="/x.conf", mode=0o644, uid=os.geteuid(), gid=os.getegid())
    (tmp_path / temporary("x.conf", "t")).write_bytes(b"half of the")
    root.write("/x.conf", b"new", like, "t")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x.conf", b"new")]


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


@pytest.mark.parametrize("target", ["../usr/etc", "/usr/etc", "./../usr//etc", "../../../usr/etc"])
def test_a_folder_behind_a_relative_or_absolute_link_is_inside_the_root(tmp_path, target):
    """As chroot(2) has it: an absolute link starts at the root, and .. does not lead out."""
    (tmp_path / "usr/etc").mkdir(parents=True)
    (tmp_path / "opt").mkdir()
    (tmp_path / "opt/etc").symlink_to(target)
    root = RootFS(str(tmp_path))
    assert root.real("/opt/etc/x.conf") == str(tmp_path / "usr/etc/x.conf")


def test_a_pipe_or_a_folder_is_not_a_file_to_keep(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("/pipe", "/folder"):
        with pytest.raises(ApplyError, match=f"^{name} is not a regular file"):
            RootFS(str(tmp_path)).state(name)


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
    with pytest.raises(ApplyError, match=r"^/a: too many symbolic links$"):
        RootFS(str(tmp_path)).content("/a")


@pytest.mark.parametrize(("number", "fits"), [(40, True), (41, False)])
def test_forty_links_are_followed(tmp_path, number, fits):
    """As many as the kernel follows: path_resolution(7)."""
    (tmp_path / "0").mkdir()
    for link in range(number):
        (tmp_path / str(link + 1)).symlink_to(f"./{link}//")
    if fits:
        assert RootFS(str(tmp_path)).real(f"/{number}/x") == str(tmp_path / "0/x")
    else:
        with pytest.raises(ApplyError, match=r"^/41: too many symbolic links$"):
            RootFS(str(tmp_path)).real(f"/{number}/x")


def test_odd_spellings_of_a_path_lead_to_one_file(tmp_path):
    root = RootFS(str(tmp_path))
    (tmp_path / "a/b").mkdir(parents=True)
    for path in ("/a/b/x", "/a//./b/x", "/a/c/../b/x", "/../a/b/x", "/a/b/x/"):
        assert root.real(path) == str(tmp_path / "a/b/x"), path


def test_only_files_are_read(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    with open_regular(str(tmp_path / "file")) as file:
        assert file.read() == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(str(tmp_path / "link"))
    for name in ("pipe", "."):
        with pytest.raises(ApplyError, match=r"is not a regular file$"):
            open_regular(f"{tmp_path}/{name}")


def test_a_root_that_is_no_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    for name in ("file", "none"):
        with pytest.raises(ApplyError, match=f"^not a directory: {tmp_path}/{name}$"):
            RootFS(f"{tmp_path}/{name}")


def test_a_name_that_a_journal_cannot_hold_is_an_error(tmp_path):
    with pytest.raises(ApplyError) as caught:
        RootFS(str(tmp_path)).state("/\udcff")
    assert (str(caught.value), caught.value.hint) == ("not UTF-8: '/\\udcff'", "rename it")


@pytest.mark.parametrize("number", [errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.EIO])
def test_only_a_file_system_without_attributes_may_do_without(tmp_path, monkeypatch, number):
    def failing(*_: object, **__: object) -> list[str]:
        raise OSError(number, os.strerror(number))

    (tmp_path / "x").write_bytes(b"x")
    root = RootFS(str(tmp_path))
    like = FileState(
        path="/y", mode=0o600, uid=os.geteuid(), gid=os.getegid(), attributes={"user.a": "YQ=="}
    )
    monkeypatch.setattr(os, "listxattr", failing)
    monkeypatch.setattr(os, "setxattr", failing)
    if number == errno.EIO:
        with pytest.raises(OSError, match="Input/output error"):
            root.state("/x")
        with pytest.raises(OSError, match="Input/output error"):
            root.write("/y", b"y", like, "t")
    else:
        assert root.state("/x").attributes == {}
        root.write("/y", b"y", like, "t")
        assert (tmp_path / "y").read_bytes() == b"y"


def test_files_that_match_are_listed_in_order_without_folders(tmp_path):
    folder = tmp_path / "m[1]"
    (folder / "modules.folder").mkdir(parents=True)
    for name in ("modules.b", "modules.a", "other"):
        (folder / name).touch()
    (folder / "modules.link").symlink_to("none")
    found = RootFS(str(tmp_path)).matching("/m[1]/modules.[a-z]*")
    assert found == ("/m[1]/modules.a", "/m[1]/modules.b", "/m[1]/modules.link")


def test_a_folder_is_removed_only_if_it_is_empty(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    root = RootFS(str(tmp_path))
    for folder in ("/a", "/none", "/a/b"):
        root.remove_folder(folder)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [] and (tmp_path / "a").exists()
    root.remove("/none/x")


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
    (tmp_path / temporary("x", "run")).write_bytes(b"half")
    root.restore(before, b"same", "run")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
