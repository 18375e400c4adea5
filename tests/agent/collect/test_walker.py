"""From rows of the table to entries of the bundle, each with its result."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from gdrkit.agent.collect import walker as walkers
from gdrkit.agent.collect.bundle import Bundle
from gdrkit.agent.collect.source_rows import FileSource, FolderSource
from gdrkit.agent.collect.tree import Tree
from gdrkit.agent.collect.walker import Walker


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path in (
        "etc/x/a.conf", "etc/x/b.conf", "etc/x/sub/c.conf", "etc/x/sub/deep/d.conf", "etc/x/build/e.conf",
        "etc/x/mok.key", "etc/y/f.conf",
    ):  # fmt: skip
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"of {path}\n")
    (tmp_path / "etc/x/away").symlink_to("../y")
    (tmp_path / "etc/x/loop").symlink_to("loop")
    (tmp_path / "etc/x/file").symlink_to("/etc/y/f.conf")
    (tmp_path / "sys/kernel/debug").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def walker(root: Path) -> Walker:
    return Walker(Tree(str(root)), Bundle(io.BytesIO(), "top", None), "6.1")


def statuses(walker: Walker) -> dict[str, str]:
    return {path: note["status"] for path, note in walker.bundle.files.items()}


NAMES = ["a.conf", "away", "b.conf", "build", "file", "loop", "mok.key", "sub"]
FILES = {"etc/x/a.conf": "found", "etc/x/b.conf": "found", "etc/y/f.conf": "found"}
REFUSED = {"etc/x/mok.key": "denied", "etc/x/loop": "unreadable"}


@pytest.mark.parametrize(
    ("depth", "limit", "files", "folders"),
    [
        (1, 0, {}, ["etc/x"]),
        (2, 0, {"etc/x/loop": "unreadable"}, ["etc/x", "etc/x/sub"]),
        (1, 99, {**FILES, **REFUSED}, ["etc/x", "etc/x/sub"]),  # the names alone
        (2, 99, {**FILES, **REFUSED, "etc/x/sub/c.conf": "found"},
         ["etc/x", "etc/x/sub", "etc/x/sub/deep"]),
        (3, 99, {**FILES, **REFUSED, "etc/x/sub/c.conf": "found", "etc/x/sub/deep/d.conf": "found"},
         ["etc/x", "etc/x/sub", "etc/x/sub/deep"]),
    ],
)  # fmt: skip
def test_a_folder_is_collected_to_its_depth(walker, depth, limit, files, folders):
    walker.folder(FolderSource("etc/x", "why", depth, limit, ("build",)))
    assert statuses(walker) == files
    assert list(walker.bundle.folders) == folders
    assert walker.bundle.folders["etc/x"] == {"status": "listed", "names": NAMES}


def test_a_file_is_cut_off_at_the_limit_of_its_row_and_read_once(walker):
    row = FileSource("etc/x/a.conf", "why", 4)
    assert walker.file("etc/x/a.conf", row) == b"of e"
    assert walker.file("etc/x/a.conf", row) is None
    assert walker.file("etc/x/file", FileSource("", "", 16, "packages")) == b""
    assert walker.file("etc/x/b.conf", FileSource("", "", 14, "packages")) == b"of etc/x/b.con"
    assert statuses(walker) == {
        "etc/x/a.conf": "truncated", "etc/y/f.conf": "reduced", "etc/x/b.conf": "truncated",
    }  # fmt: skip


def test_what_is_no_file_says_what_it_is(walker, root):
    os.mkfifo(root / "etc/pipe")
    for path in ("etc/x", "etc/none", "etc/pipe", "etc/x/mok.key", "sys/kernel/debug/x", "sys/kernel/x"):
        assert walker.file(path, FileSource(path, "why")) is None
    assert walker.bundle.files == {
        "etc/none": {"status": "absent"}, "etc/pipe": {"status": "unreadable", "why": "not a regular file"},
        "etc/x/mok.key": {"status": "denied", "why": "a private key: never opened"},
        "sys/kernel/debug/x": {"status": "not-collected", "why": "nothing is mounted there"},
        "sys/kernel/x": {"status": "absent"},
    }  # fmt: skip
    assert walker.bundle.folders == {"etc/x": {"status": "listed", "names": NAMES}}


def test_a_listing_says_why_there_is_none(walker, root, monkeypatch):
    monkeypatch.setattr(walkers, "NAMES_LIMIT", 1)
    paths = ("etc/none", "etc/x/a.conf", "sys/kernel/debug", "sys/kernel/debug/x", "etc/y", "etc/x/loop")
    found = {path: walker.listing(path) for path in paths}
    assert found == {**dict.fromkeys(paths), "sys/kernel/debug": [], "etc/y": ["f.conf"]}
    assert walker.listing("etc") == ["x", "y"]
    unmounted = {"status": "not-collected", "why": "nothing is mounted there"}
    assert walker.bundle.folders == {
        "etc/none": {"status": "absent"}, "sys/kernel/debug": unmounted, "sys/kernel/debug/x": unmounted,
        "etc/y": {"status": "listed", "names": ["f.conf"]},
        "etc": {"status": "truncated", "why": "more than 1 names"},
    }  # fmt: skip
    (root / "etc/y/late").touch()
    assert walker.listing("etc/y") == ["f.conf"]  # asked once
    assert walker.bundle.files == {"etc/x/loop": {"status": "unreadable", "why": os.strerror(40)}}


def test_of_a_private_row_only_the_names_that_lead_to_its_files_are_recorded(walker, root):
    for path in ("home/a/.nccl.conf", "home/b/.bashrc", "home/c/.nccl.conf/x", "home/d/.other"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("NCCL_DEBUG=INFO\n")
    (root / "home/e").mkdir()
    (root / "home/e/.nccl.conf").symlink_to("/etc/x/a.conf")
    walker.files(FileSource("home/*/.nccl.conf", "why", private=True))
    assert statuses(walker) == {"home/a/.nccl.conf": "found", "home/e/.nccl.conf": "denied"}
    assert walker.bundle.folders == {
        "home": {"status": "listed", "names": ["a", "e"]},
        "home/a": {"status": "listed", "names": [".nccl.conf"]},
        "home/e": {"status": "listed", "names": [".nccl.conf"]},
    }  # fmt: skip


def test_of_a_private_row_without_its_folder_nothing_is_recorded(walker):
    walker.files(FileSource("home/*/.nccl.conf", "why", private=True))
    assert (walker.bundle.files, walker.bundle.folders) == ({}, {})


PORT = "sys/class/infiniband/mlx5_0/ports/1"


def test_the_slots_of_a_table_that_are_in_use(walker, root):
    slots = {
        "0": "fe80::1",
        "1": "0000:0000",
        "10": "fe80::2",
        "2": "fe80::3",
        "x": "fe80::4",
        "3": "y" * 70,
    }
    for index, gid in slots.items():
        (root / PORT / "gids").mkdir(parents=True, exist_ok=True)
        (root / PORT / "gids" / index).write_text(gid + "\n")
    for index in ("0", "1", "10"):
        (root / PORT / "gid_attrs/types").mkdir(parents=True, exist_ok=True)
        (root / PORT / "gid_attrs/types" / index).write_text("RoCE v2\n")
    (root / PORT / "pkeys").mkdir()
    (root / PORT / "pkeys/0").write_text("0x0000\n")
    (root / "sys/class/infiniband/mlx5_1/ports/1").mkdir(parents=True)
    (root / "sys/class/infiniband/mlx5_1/ports/1/gids").write_text("a file")
    walker.port_tables()
    gids = {f"{PORT}/gids/{index}": "found" for index in ("0", "2", "3", "10")}
    assert statuses(walker) == {**gids, **{f"{PORT}/gid_attrs/types/{n}": "found" for n in ("0", "10")}}
    listed = {path: row.get("names") for path, row in walker.bundle.folders.items() if path.startswith(PORT)}
    assert listed == {
        f"{PORT}/gids": ["0", "2", "3", "10"], f"{PORT}/gid_attrs": ["types"],
        f"{PORT}/gid_attrs/types": ["0", "10"], f"{PORT}/pkeys": [],
    }  # fmt: skip


def test_sizes_of_files_and_of_what_is_none(walker):
    assert (walker.size("etc/x/file"), walker.size("etc/none")) == (len("of etc/y/f.conf\n"), 1 << 62)
