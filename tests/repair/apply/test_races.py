"""Another process swaps folders, links and files while a tree is repaired: nothing outside is touched."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gdrkit.cli import main
from gdrkit.repair.apply import store
from gdrkit.repair.apply.commands import run_command
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.journal import Journal, StepEnded, new_run
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.platforms.action import RunCommand
from tests.module_builder import RELEASE
from tests.repair.apply.scratch import FOLDER, machine, needs_depmod

AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Of renameat2(2): both names exist at every moment."""
RACED_S = 0.7


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def exchange(one: Path, other: Path) -> None:
    names = os.fsencode(one), os.fsencode(other)
    if ctypes.CDLL(None).renameat2(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE):
        raise OSError("renameat2 failed")


@contextlib.contextmanager
def meanwhile(again: Callable[[], object]) -> Iterator[None]:
    """Another process does something again and again."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            while True:
                again()
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture
def swapped(tmp_path):
    """A folder of a tree, and a link to a folder outside, which has a file of the same name."""
    folder, outside, link = tmp_path / "root/etc/modprobe.d", tmp_path / "outside", tmp_path / "link"
    folder.mkdir(parents=True)
    outside.mkdir()
    link.symlink_to(outside)
    (folder / "x.conf").write_text("ours")
    (outside / "x.conf").write_text("theirs")
    try:
        exchange(folder, link)
    except OSError:
        pytest.skip("needs a file system with renameat2(2), RENAME_EXCHANGE")
    exchange(folder, link)
    return RootFS(str(tmp_path / "root")), folder, link, outside


def write(root: RootFS, path: str) -> None:
    like = FileState(path=path, mode=0o644, uid=os.geteuid(), gid=os.getegid())
    root.write(path, b"new", like, "t")


def read(root: RootFS, path: str) -> None:
    assert root.read(path) != b"theirs"


def look(root: RootFS, path: str) -> None:
    assert root.state(path) != root.state("/outside/x.conf") or root.state(path).kind == "absent"
    assert root.content(path) != b"theirs"


def remove(root: RootFS, path: str) -> None:
    root.remove(path)


def restore(root: RootFS, path: str) -> None:
    root.restore(FileState(path=path), b"", "t")
    root.restore(FileState(path=path, kind="link", target="y", digest="?"), b"", "t")


def make_folders(root: RootFS, path: str) -> None:
    root.make_folder(f"{path}.d")
    root.remove_folder(f"{path}.d")


@pytest.mark.parametrize("operation", [write, read, look, remove, restore, make_folders])
def test_no_operation_follows_a_folder_that_becomes_a_link(swapped, operation):
    root, folder, link, outside = swapped
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()}
    done = 0
    with meanwhile(lambda: exchange(folder, link)):
        end = time.monotonic() + RACED_S
        while time.monotonic() < end:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileExistsError):
                operation(root, "/etc/modprobe.d/x.conf")
                done += 1
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in outside.iterdir()}
    assert after == before and done


def test_a_backup_never_empties_a_file_that_has_another_name(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/x").write_bytes(b"ours")
    (tmp_path / "victim").write_bytes(b"theirs")
    root = RootFS(str(tmp_path / "root"))
    journal = new_run(root, "20260101-000000")
    (Path(journal.folder) / "backups/00-00-000").hardlink_to(tmp_path / "victim")
    with pytest.raises(ApplyError, match="hard link"):
        journal.back_up(root.state("/x"), "00-00-000")
    assert (tmp_path / "victim").read_bytes() == b"theirs"


def test_a_backup_is_the_state_that_it_belongs_to_or_there_is_none(tmp_path):
    (tmp_path / "root").mkdir()
    victim, texts = tmp_path / "root/x", [b"a" * 100_000, b"b" * 100_000]
    root = RootFS(str(tmp_path / "root"))
    victim.write_bytes(texts[0])
    journal = new_run(root, "20260101-000000")
    kept = refused = number = 0
    with meanwhile(lambda: [victim.write_bytes(text) for text in texts]):
        end = time.monotonic() + RACED_S
        while time.monotonic() < end or not kept + refused:
            number += 1
            try:
                state = journal.back_up(root.state("/x"), f"00-00-{number:03d}")
            except ApplyError as error:
                assert "changed while it was copied" in str(error)
                refused += 1
                continue
            journal.backup_of(state)  # raises if it is damaged
            kept += 1
    victim.write_bytes(b"still")
    assert journal.backup_of(journal.back_up(root.state("/x"), "00-01-000")) == b"still"


@needs_depmod
def test_the_index_of_modules_is_written_into_the_tree_or_nowhere(tmp_path):
    """depmod follows the links of its paths itself."""
    root, outside, link = machine(tmp_path / "root"), tmp_path / "outside", tmp_path / "link"
    outside.mkdir()
    link.symlink_to(outside)
    index = RunCommand(
        argv=("depmod", "-a", RELEASE), in_root=("depmod", "-b", "{root}", RELEASE), why="x",
        touches=(f"/{FOLDER}/modules.[a-z]*",),
    )  # fmt: skip
    tree, done = RootFS(str(root)), 0
    with meanwhile(lambda: exchange(root / FOLDER, link)):
        end = time.monotonic() + RACED_S
        while time.monotonic() < end or not done:
            with contextlib.suppress(ApplyError):
                run_command(tree, index)
                done += 1
    assert list(outside.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of other users: run the tests as root")
@pytest.mark.parametrize("name", [".", "20260101-000000-00", "20260101-000000-00/backups"])
@pytest.mark.parametrize("with_folder", [False, True], ids=["link", "folder"])
def test_no_folder_of_a_journal_is_used_that_another_user_puts_in_its_place(tmp_path, name, with_folder):
    """A link of his to a folder of ours, or a folder of his: nothing is read from it, nor written to it."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root/x").write_bytes(b"ours")
    root = RootFS(str(tmp_path / "root"))
    journal = new_run(root, "20260101-000000")
    journal.open()
    journal.append(StepEnded(step=1))
    journal.back_up(root.state("/x"), "00-00-000")
    folder = Path(store.home(root), name).resolve()
    outside, other = tmp_path / "outside", tmp_path / "other"
    shutil.copytree(folder, outside)
    for file in filter(Path.is_file, outside.rglob("*")):
        file.write_bytes(b"theirs")
    if with_folder:
        other = outside
    else:
        other.symlink_to(outside)
    for path in (other, *(outside.rglob("*") if with_folder else ())):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    before = contents(outside)
    done = refused = number = 0
    with meanwhile(lambda: exchange(folder, other)):
        end = time.monotonic() + RACED_S
        while time.monotonic() < end or not (done and refused):
            number += 1
            try:
                state = journal.back_up(root.state("/x"), f"00-01-{number:05d}")
                assert journal.backup_of(state) == b"ours"
                again = Journal(root, journal.run)
                again.open()
                assert again.records[0] == StepEnded(step=1)
                again.append(StepEnded(step=2))
                again.close()
                journal.sync_backups()
                new_run(root, "20260102-000000")
                done += 1
            except (ApplyError, FileNotFoundError, NotADirectoryError):
                refused += 1
    journal.close()
    theirs = folder if with_folder and folder.stat().st_uid == 65534 else outside
    assert contents(theirs) == before


@needs_depmod
@pytest.mark.slow
@pytest.mark.parametrize("name", ["etc", "etc/modprobe.d", "lib/modules"])
def test_whole_repairs_in_a_race_stay_inside_and_can_be_undone(tmp_path, capsys, name):
    for number in range(8):
        base = tmp_path / str(number)
        base.mkdir()
        root, outside, link = machine(base / "root"), base / "outside", base / "link"
        outside.mkdir()
        link.symlink_to(outside)
        folder = root / name
        before = contents(root)
        words = ["--yes", "--root", str(root)]
        with meanwhile(lambda folder=folder, link=link: exchange(folder, link)):
            main(["fix", "--apply", "--steps", "remove-nv-peer-mem", *words])
        if folder.is_symlink():
            exchange(folder, link)
        assert list(outside.rglob("*")) == []
        main(["fix", "--undo", *words])
        assert {path: text for path, text in contents(root).items() if path in before} == before
        assert "internal error" not in capsys.readouterr().err


def contents(root: Path) -> dict[str, bytes]:
    files = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path.relative_to(root)): path.read_bytes() for path in files if "modules." not in path.name}
