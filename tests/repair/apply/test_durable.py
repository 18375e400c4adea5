"""What is on disk when: fsync(2) of each file and folder, recorded at the boundary to the system.

A crash between two calls leaves what was synced before; test_crash.py kills a run at every call, but the
kernel's cache survives that, so it cannot show what only a loss of power would lose.
"""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from gdrkit.repair.apply import store
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import JOURNAL, Journal, StepEnded, new_run
from gdrkit.repair.apply.root_fs import RootFS

Call = tuple[str, ...]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """("fsync", path, content) or ("fsync", folder), ("rename", from, to), ("unlink", path), in order."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done: list[Call] = []
    fsync, rename, unlink = os.fsync, os.rename, os.unlink

    def recorded(fd: int) -> None:
        path = Path(f"/proc/self/fd/{fd}").readlink()
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        done.append(("fsync", str(path), *([] if folder else [path.read_text()])))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", recorded)

    def full(name: str, folder: int | None) -> str:
        return name if folder is None else str(Path(f"/proc/self/fd/{folder}").readlink() / name)

    def renamed(a: str, b: str, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
        done.append(("rename", full(a, src_dir_fd), full(b, dst_dir_fd)))
        rename(a, b, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    def unlinked(name: str, *, dir_fd: int | None = None) -> None:
        done.append(("unlink", full(name, dir_fd)))
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rename", renamed)
    monkeypatch.setattr(os, "unlink", unlinked)
    return done


@pytest.fixture
def root(tmp_path: Path) -> RootFS:
    (tmp_path / "root").mkdir()
    return RootFS(str(tmp_path / "root"))


LIKE = FileState(path="/x", kind="file", mode=0o644, uid=os.geteuid(), gid=os.getegid())


def test_a_file_is_on_disk_before_it_gets_its_name_and_the_name_after(calls, root):
    root.write("/x", b"new", LIKE, "t")
    temporary = f"{root.path}/.x.gdrkit-t"
    assert [call for call in calls if call[0] != "unlink"] == [
        ("fsync", temporary, "new"),
        ("rename", temporary, f"{root.path}/x"),
        ("fsync", root.path),
    ]


def test_a_removed_file_a_new_folder_and_a_restored_link_are_on_disk(calls, root):
    Path(root.path, "x").write_text("old")
    root.remove("/x")
    assert calls == [("unlink", f"{root.path}/x"), ("fsync", root.path)]
    root.make_folder("/folder")
    assert calls[2:] == [("fsync", root.path)]
    root.restore(FileState(path="/folder/l", kind="link", target="../x", digest="?"), b"", "t")
    assert calls[-1] == ("fsync", f"{root.path}/folder")
    root.restore(FileState(path="/folder/l"), b"", "t")
    assert calls[-2:] == [("unlink", f"{root.path}/folder/l"), ("fsync", f"{root.path}/folder")]


def test_each_folder_of_a_run_is_on_disk(calls, root, tmp_path):
    """Each folder that got an entry: from the first above the new ones to that of the backups."""
    run = Path(new_run(root, "20260101-000000").folder)
    changed = [folder for folder in (run, *run.parents) if folder.is_relative_to(tmp_path)]
    assert calls == [("fsync", str(folder)) for folder in reversed(changed)]


def test_a_record_is_on_disk_when_append_returns(calls, root):
    journal = new_run(root, "20260101-000000")
    file = f"{journal.folder}/{JOURNAL}"
    calls.clear()
    journal.open()
    assert calls == [("fsync", file, ""), ("fsync", journal.folder)]
    written = ""
    for step in range(3):
        journal.append(StepEnded(step=step))
        written += f'{{"type":"step-ended","step":{step}}}\n'
        assert calls[-1] == ("fsync", file, written)
    journal.close()


def test_what_a_crash_left_of_a_record_is_gone_from_the_disk(calls, root):
    journal = new_run(root, "20260101-000000")
    whole = '{"type":"step-ended","step":0}\n'
    Path(journal.folder, JOURNAL).write_text(whole + '{"type":"st')
    Path(journal.folder, JOURNAL).chmod(0o600)
    again = Journal(root, journal.run)
    again.open()
    again.close()
    assert ("fsync", f"{journal.folder}/{JOURNAL}", whole) in calls


def test_a_backup_and_its_name_are_on_disk(calls, root):
    Path(root.path, "x").write_text("precious")
    journal = new_run(root, "20260101-000000")
    calls.clear()
    journal.back_up(root.state("/x"), "00-00-000")
    journal.sync_backups()
    backups = f"{journal.folder}/backups"
    assert calls == [("fsync", f"{backups}/00-00-000", "precious"), ("fsync", backups)]


@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_TRUNC]
)
def test_a_link_in_place_of_a_file_of_ours_is_not_followed(flags, root, tmp_path, calls):
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    journal = new_run(root, "20260101-000000")
    for name, target in (("file", victim), ("dangling", tmp_path / "new")):
        Path(journal.folder, name).symlink_to(target)
        refused = pytest.raises(ApplyError, match="not a regular file")
        with store.folder(root, journal.run) as folder, refused:
            os.close(store.open_file(folder, name, flags))
    assert victim.read_text() == "root's own" and not (tmp_path / "new").exists()


def test_a_pipe_in_place_of_a_file_of_ours_is_not_waited_for(root, calls):
    journal = new_run(root, "20260101-000000")
    os.mkfifo(Path(journal.folder, "pipe"), 0o600)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(20)
    for flags in (os.O_RDONLY, os.O_WRONLY):
        refused = pytest.raises(ApplyError, match="not a regular file")
        with store.folder(root, journal.run) as folder, refused:
            os.close(store.open_file(folder, "pipe", flags))
    signal.alarm(0)
