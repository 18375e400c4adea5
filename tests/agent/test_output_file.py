"""Files that a user asked for are there whole or not at all, and no link leads root elsewhere."""

import os
import stat

import pytest

from gdrkit.agent.output_file import whole_file


def write(path, content=b"new"):
    with whole_file(str(path)) as stream:
        stream.write(content)


def test_a_file_gets_its_content_and_mode(tmp_path):
    with whole_file(str(tmp_path / "x"), 0o600) as stream:
        stream.write(b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_regular_file_is_replaced_and_its_other_names_keep_what_they_had(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    os.link(tmp_path / "x", tmp_path / "shadow")
    write(tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "shadow").read_bytes() == b"old"


def test_a_link_that_somebody_left_is_neither_followed_nor_replaced(tmp_path):
    (tmp_path / "shadow").write_bytes(b"root:*:")
    (tmp_path / "x").symlink_to("shadow")
    with pytest.raises(OSError, match="not a regular file"):
        write(tmp_path / "x")
    assert (tmp_path / "shadow").read_bytes() == b"root:*:"


@pytest.mark.parametrize("kind", ["folder", "fifo", "dangling"])
def test_what_is_not_a_file_stays(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    before = path.lstat().st_mode
    with pytest.raises(OSError, match="not a regular file"):
        write(path)
    assert path.lstat().st_mode == before and [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_fails_midway_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), whole_file(str(tmp_path / "x")) as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    assert (tmp_path / "x").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_all_of_it_is_on_the_disk_with_its_mode_before_it_takes_its_place(tmp_path, monkeypatch):
    sizes = []
    sync = os.fsync

    def synced(descriptor):
        status = os.fstat(descriptor)
        sizes.append((status.st_size, stat.S_IMODE(status.st_mode), (tmp_path / "x").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    write(tmp_path / "x")
    assert sizes == [(3, 0o644, False)]
