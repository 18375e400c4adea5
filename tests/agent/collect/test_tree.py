"""A file system below a root: what each path is, and what the bundle says of the links on its way."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gdrkit.agent.collect import tree as trees
from gdrkit.agent.collect.ownership import NotTheirs
from gdrkit.agent.collect.tree import FileContent, MaskedFile, Tree, outcome


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in {"etc/a": "one", "usr/lib/x/y": "two", "proc/keys": "", "home/alice/f": "x"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for link, target in {
        "lib": "usr/lib", "etc/b": "a", "etc/abs": "/usr/lib/x/y", "etc/up": "../../../usr/./lib//x/y",
        "etc/deep/l": "../../usr/lib/x", "loop": "./loop", "etc/dangling": "no/such", "same": "etc/../etc/a",
        "etc/far": "/../../etc/a", "top": "../../etc/a", "out": "../etc/a", "etc/in": "../etc/a",
    }.items():  # fmt: skip
        (tmp_path / link).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / link).symlink_to(target)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "real", "links"),
    [
        ("etc/a", "etc/a", {}),
        ("", "", {}),
        ("etc/", "etc", {}),
        ("etc/./../etc/a", "etc/a", {}),
        ("../../etc/a", "etc/a", {}),
        ("etc/b", "etc/a", {"etc/b": "a"}),
        ("lib/x/y", "usr/lib/x/y", {"lib": "usr/lib"}),
        ("lib/none/z", "usr/lib/none/z", {"lib": "usr/lib"}),
        ("etc/abs", "usr/lib/x/y", {"etc/abs": "../usr/lib/x/y"}),
        ("etc/up", "usr/lib/x/y", {"etc/up": "../usr/lib/x/y"}),
        ("etc/deep/l/y", "usr/lib/x/y", {"etc/deep/l": "../../usr/lib/x"}),
        ("etc/dangling", "etc/no/such", {"etc/dangling": "no/such"}),
        ("etc/far", "etc/a", {"etc/far": "a"}),
        ("top", "etc/a", {"top": "etc/a"}),
        ("out", "etc/a", {"out": "etc/a"}),
        ("etc/in", "etc/a", {"etc/in": "../etc/a"}),
        ("same", "etc/a", {"same": "etc/../etc/a"}),
    ],
)
def test_links_are_followed_inside_the_root_and_recorded(root, path, real, links):
    tree = Tree(str(root))
    assert tree.resolve(path) == real
    assert tree.links == links
    assert tree.resolve(path) == real  # the second time from memory


def test_the_last_link_is_not_followed_if_only_the_way_is_asked_for(root):
    tree = Tree(str(root))
    assert tree.resolve("lib/../../etc/b", last=False) == "etc/b"
    assert tree.resolve("etc/b", last=False) == "etc/b"
    assert tree.links == {"lib": "usr/lib"}
    assert tree.is_link("etc/b") and not tree.is_link("etc/a") and not tree.is_link("etc/none")
    assert tree.links == {"lib": "usr/lib", "etc/b": "a"}


def test_of_an_endless_file_only_the_beginning_is_read(root):
    with (root / "huge").open("wb") as file:
        file.write(b"head")
        file.truncate(64 << 30)  # sparse: it takes no space

    found = Tree(str(root)).read("huge", 4)

    assert (found.data, found.whole, found.size) == (b"head", False, 64 << 30)


def test_a_loop_ends_with_the_kernels_error(root):
    with pytest.raises(OSError) as caught:
        Tree(str(root)).resolve("loop")
    assert (caught.value.errno, outcome(caught.value)) == (
        errno.ELOOP, ("unreadable", "Too many levels of symbolic links"),
    )  # fmt: skip


def test_as_many_links_are_followed_as_the_limit_says(root):
    for number in range(trees.LINKS_LIMIT + 1):
        (root / f"l{number}").symlink_to(f"l{number + 1}" if number < trees.LINKS_LIMIT else "etc/a")
    assert Tree(str(root)).resolve("l1") == "etc/a"
    with pytest.raises(OSError, match="Too many levels"):
        Tree(str(root)).resolve("l0")


@pytest.mark.parametrize("path", ["etc/a", "home/alice/f", "opt/f"])
@pytest.mark.parametrize(("limit", "kept", "whole"), [(0, b"", False), (2, b"12", False), (3, b"123", True)])
def test_a_file_is_read_up_to_a_limit(root, path, limit, kept, whole):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("123")
    os.utime(root / path, (1.9, 1700000000.9))
    assert Tree(str(root)).read(path, limit) == FileContent(kept, whole, 1700000000, 3)


def test_a_large_file_is_read_whole(root):
    content = os.urandom(3_000_001)
    (root / "etc/large").write_bytes(content)
    found = Tree(str(root)).read("etc/large", len(content))
    assert (found.data == content, found.whole, found.size) == (True, True, len(content))
    assert Tree(str(root)).peek("etc/large") == content[:65536]
    assert Tree(str(root)).peek("etc/none") == Tree(str(root)).peek("etc") == b""
    assert Tree(str(root)).peek("etc/abs") == b"two"


def test_what_is_no_file_is_not_opened(root):
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(IsADirectoryError):
        Tree(str(root)).open("etc")
    os.mkfifo(root / "etc/pipe")
    with pytest.raises(OSError, match="not a regular file"):
        Tree(str(root)).open("etc/pipe")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


def test_a_device_in_place_of_a_file_of_the_kernel_means_hidden(root, monkeypatch):
    monkeypatch.setattr(trees.stat, "S_ISCHR", lambda mode: True)
    with pytest.raises(MaskedFile) as caught:
        Tree(str(root)).open("proc/keys")
    assert outcome(caught.value) == ("denied", "hidden from this container")
    os.close(Tree(str(root)).open("etc/a"))  # nothing is mounted over those


def test_names_are_sorted_printable_and_limited(root, monkeypatch):
    tree = Tree(str(root))
    (root / "usr/lib/x/two\nlines").touch()
    (root / "usr/lib/x/a").touch()
    assert tree.names("usr/lib/x") == ["a", "y"]
    (root / "usr/lib/x/late").touch()
    assert tree.names("usr/lib/x") == ["a", "y"]  # asked once
    monkeypatch.setattr(trees, "NAMES_LIMIT", 2)
    for name in "cdefg":
        (root / "etc/deep" / name).touch()
    assert len(Tree(str(root)).names("etc/deep")) == 3


def test_folders_and_what_is_there(root):
    tree = Tree(str(root))
    assert [tree.is_folder(path) for path in ("etc", "etc/a", "etc/none")] == [True, False, False]
    assert tree.status("etc/a").st_size == 3


def test_nothing_is_known_below_an_empty_mount_point(root):
    (root / "sys/kernel/debug").mkdir(parents=True)
    tree = Tree(str(root))
    assert tree.unmounted("sys/kernel/debug") and tree.unmounted("sys/kernel/debug/x/y")
    assert not tree.unmounted("sys/kernel") and not tree.unmounted("sys/kernel/debugging")
    assert not tree.unmounted("proc/x") and not tree.unmounted("sys/firmware/x")  # full; not there at all


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file"), ("absent", "")),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), ("absent", "")),
        (ProcessLookupError(errno.ESRCH, "No such process"), ("absent", "")),
        (OSError(errno.ENAMETOOLONG, "File name too long"), ("absent", "")),
        (PermissionError(errno.EACCES, "Permission denied"), ("denied", "Permission denied")),
        (PermissionError(errno.EPERM, "Operation not permitted"), ("denied", "Operation not permitted")),
        (OSError(errno.EINVAL, "Invalid argument"), ("unreadable", "Invalid argument")),
        (OSError("odd"), ("unreadable", "odd")),
        (TimeoutError("timed out after 5 s"), ("timed-out", "timed out after 5 s")),
    ],
)
def test_every_error_is_an_outcome(error, found):
    assert outcome(error) == found


def test_of_a_refused_path_its_own_links_are_forgotten_and_no_others(root):
    for link, target in {"f2": "f", "bad": "/etc/a", "bad2": "bad", "badly": "f"}.items():
        (root / "home/alice" / link).symlink_to(target)
    tree = Tree(str(root))
    for path in ("lib/x/y", "home/alice/f2", "home/alice/badly"):
        tree.resolve(path)
    with pytest.raises(NotTheirs):
        tree.resolve("home/alice/bad")
    kept = {"lib": "usr/lib", "home/alice/f2": "f", "home/alice/badly": "f"}
    assert tree.links == kept
    with pytest.raises(NotTheirs):
        tree.resolve("home/alice/bad/x")
    assert tree.links == kept
