"""Trees, journals and environments that were made to run or write something as root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from gdrkit.cli import main
from gdrkit.cli.fix_apply import take_snapshot
from gdrkit.repair.apply import commands, store
from gdrkit.repair.apply.entries import FileState
from gdrkit.repair.apply.errors import AlreadyRunning, ApplyError
from gdrkit.repair.apply.journal import (
    ActionIntent,
    Journal,
    JournalRecord,
    RunBegun,
    StepBegun,
    VerdictSnapshot,
    new_run,
    parse,
    runs,
)
from gdrkit.repair.apply.passwords import Passwords
from gdrkit.repair.apply.reverter import Reverter
from gdrkit.repair.apply.root_fs import RootFS
from gdrkit.repair.apply.runner import Runner, exclusive_lock
from gdrkit.repair.platforms.action import Procedure, RunCommand
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.command_shapes import fits
from tests.repair.apply.scratch import machine, needs_depmod

RUN = "20260101-000000-00"
NOTHING = VerdictSnapshot(states={}, findings=(), peermem="")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/etc").mkdir(parents=True)
    return tmp_path / "tree"


def planted(marker: Path) -> list[JournalRecord]:
    """The records of an unfinished run whose every command would make a file."""
    touch = ("touch", str(marker))
    action = RunCommand(argv=touch, in_root=touch, undo=(touch,), again=True, why="x")
    return [
        RunBegun(
            version="0", time="", consumer="nccl", steps=("load-peermem",), choices=ProcedureChoices(),
            before=NOTHING,
        ),
        StepBegun(step=0, procedure=Procedure(remedy="load-peermem", platform="debian", actions=(action,))),
        ActionIntent(step=0, action=0),
    ]  # fmt: skip


def lines(records: list[JournalRecord]) -> bytes:
    return b"".join(msgspec.json.encode(record) + b"\n" for record in records)


def inside(tree: Path, content: bytes) -> Path:
    folder = tree / "var/lib/gdrkit/fix" / RUN
    (folder / "backups").mkdir(parents=True)
    (folder / "journal.jsonl").write_bytes(content)
    return folder


# -- what lies in a tree ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["--resume", "--undo", "--status"])
def test_a_journal_inside_a_tree_is_ignored_and_mentioned(tree, tmp_path, capsys, mode):
    marker = tmp_path / "marker"
    inside(tree, lines(planted(marker)))
    sure = [] if mode == "--status" else ["--yes"]
    assert main(["fix", mode, *sure, "--root", str(tree)]) == 0
    printed = capsys.readouterr()
    assert not marker.exists() and RUN not in printed.out
    assert "ignored" in printed.err and printed.err.count("\n") == 1


@pytest.mark.parametrize("mode", ["--resume", "--undo", "--status"])
def test_links_in_place_of_a_trees_journal_and_lock_lead_nowhere(tree, tmp_path, mode):
    victim = tmp_path / "victim"
    victim.write_bytes(b"no newline: this would be truncated")
    folder = inside(tree, b"")
    (folder / "journal.jsonl").unlink()
    (folder / "journal.jsonl").symlink_to(victim)
    (folder.parent / "lock").symlink_to(tmp_path / "created")
    assert main(["fix", mode, "--root", str(tree)]) == 0
    assert victim.read_bytes() == b"no newline: this would be truncated"
    assert not (tmp_path / "created").exists()


def test_a_folder_of_modules_that_leads_out_of_the_tree_is_not_indexed(tree, tmp_path):
    outside = tmp_path / "outside/6.1.0"
    outside.mkdir(parents=True)
    (tree / "lib").mkdir()
    (tree / "lib/modules").symlink_to(outside.parent)
    action = RunCommand(
        argv=("depmod", "-a", "6.1.0"), in_root=("depmod", "-b", "{root}", "6.1.0"), why="x",
        touches=("/lib/modules/6.1.0/modules.[a-z]*",),
    )  # fmt: skip
    with pytest.raises(ApplyError, match="no such file") as refused:
        commands.run_command(RootFS(str(tree)), action)
    assert "out of the tree" in refused.value.hint and not any(outside.iterdir())


def test_a_key_that_is_a_link_is_read_inside_the_tree(tree, tmp_path, capsys):
    (tmp_path / "host.key").write_bytes(b"a secret of the host")
    (tree / "etc/key").symlink_to(tmp_path / "host.key")
    with pytest.raises(ApplyError, match="key not found"):
        from gdrkit.repair.apply.executor import read_key

        read_key(RootFS(str(tree)), "/etc/key")


# -- a journal where ours are, but not ours ---------------------------------------------------------------


def test_a_command_of_no_step_is_refused_by_resume_and_undo(tree, tmp_path):
    marker = tmp_path / "marker"
    journal = new_run(RootFS(str(tree)), RUN[:-3])
    journal.open()
    for record in planted(marker):
        journal.append(record)
    with pytest.raises(ApplyError, match="refused: not a command of any step: touch"):
        Runner(journal, Passwords(), lambda _: None, lambda *_: True, take_snapshot).run()
    with pytest.raises(ApplyError, match="refused: not a command of any step: touch"):
        Reverter(journal, Passwords(), lambda _: None).revert()
    journal.close()
    assert not marker.exists()


@pytest.mark.parametrize(
    "argv",
    [
        ("sh", "-c", "id"),
        ("/tmp/depmod", "-a", "6.1.0"),
        ("./depmod", "-a", "6.1.0"),
        ("depmod", "-a", "--outdir=x"),
        ("depmod", "-a", "{root.__class__}"),
        ("depmod", "-a", "6.1.0", "-C", "/tmp/x"),
        ("depmod", "-a", "6.1.0\n"),
        ("modprobe", "-C", "/tmp/x", "nvidia"),
        ("modprobe", "/tmp/evil.ko"),
        ("apt-get", "install", "-y", "-oDPkg::Pre-Invoke::=id"),
        ("apt-get", "install", "-y", "./nvidia.deb"),
        ("apt-get", "install", "-y", "nvidia-x", "evil"),
        ("dnf", "install", "-y", "https://x/nvidia.rpm"),
        ("grubby", "--update-kernel=ALL", "--args=init=/tmp/x"),
        ("dkms", "build", "-m", "nvidia", "-v", "../x", "-k", "6.1.0", "--force"),
        ("setpci", "-s", "0000:00:00.0", "COMMAND=0"),
        ("systemctl", "enable", "/tmp/x.service"),
        (),
    ],
)
def test_no_other_command_fits_a_step(argv):
    assert not fits(argv)


@pytest.mark.parametrize(
    "change",
    [
        {"backup": "../../etc/shadow"},
        {"backup": "x/1"},
        {"path": "/etc/../x"},
        {"path": "x"},
        {"path": "/a//b"},
    ],
)
def test_a_backup_or_path_that_leads_elsewhere_is_not_read(change):
    with pytest.raises(ValueError, match="not"):
        FileState(**{"path": "/etc/x", "kind": "file", **change})
    record = {"type": "intent", "step": 0, "action": 0, "states": [{"path": "/etc/x", **change}]}
    with pytest.raises(ApplyError, match="line 1 of the journal is damaged"):
        parse(msgspec.json.encode(record) + b"\n" + lines(planted(Path("x"))))


def test_a_folder_of_a_journal_that_leads_elsewhere_is_not_read():
    record = {"type": "intent", "step": 0, "action": 0, "folders": ["/etc/../../x"]}
    with pytest.raises(ApplyError, match="line 1 of the journal is damaged"):
        parse(msgspec.json.encode(record) + b"\n" + lines(planted(Path("x"))))


@pytest.mark.parametrize("kind", ["link", "hard link", "folder", "pipe", "for all to write"])
@pytest.mark.parametrize("name", ["journal.jsonl", "../lock"])
def test_what_is_no_file_of_ours_is_refused_unchanged(tree, tmp_path, capsys, kind, name):
    root = RootFS(str(tree))
    folder = Path(new_run(root, RUN[:-3]).folder)
    victim, place = tmp_path / "victim", folder / name
    victim.write_bytes(b"kept")
    if kind == "link":
        place.symlink_to(victim)
    elif kind == "hard link":
        os.link(victim, place)
    elif kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.write_bytes(b"")
        place.chmod(0o666)
    for mode in ("--undo", "--resume", *(("--status",) if name != "../lock" else ())):
        assert main(["fix", mode, "--root", str(tree)]) == 2, mode
        error = capsys.readouterr().err
        assert str(place.resolve().name if kind != "link" else place.name) in error
        assert "move it away" in error
    assert victim.read_bytes() == b"kept"


def test_a_link_or_a_file_in_place_of_a_folder_of_backups_is_not_followed(tree, tmp_path):
    (tree / "etc/x").write_bytes(b"content")
    root = RootFS(str(tree))
    journal = new_run(root, RUN[:-3])
    (Path(journal.folder) / "backups/00-00-000").symlink_to(tmp_path / "created")
    with pytest.raises(ApplyError, match="not a regular file"):
        journal.back_up(root.state("/etc/x"), "00-00-000")
    assert not (tmp_path / "created").exists()


@pytest.mark.parametrize("folder", ["", "gdrkit", "gdrkit/fix"])
def test_a_state_folder_that_others_can_write_to_is_refused_with_a_hint(tree, state, capsys, folder):
    (state / folder).mkdir(parents=True)
    (state / folder).chmod(0o777)
    assert main(["fix", "--resume", "--root", str(tree)]) == 2
    error = capsys.readouterr().err
    assert "others can write to it" in error and "XDG_STATE_HOME" in error
    assert list((state / folder).iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_state_folder_or_link_of_another_user_is_refused(tree, state, capsys):
    state.mkdir()
    os.chown(state, 4711, -1)
    assert main(["fix", "--status", "--root", str(tree)]) == 2
    state.rename(state.with_name("other"))
    state.symlink_to(state.with_name("own"))
    state.with_name("own").mkdir()
    os.chown(state, 4711, -1, follow_symlinks=False)
    assert main(["fix", "--status", "--root", str(tree)]) == 2
    assert capsys.readouterr().err.count("user 4711") == 2


def test_a_link_of_our_own_to_the_state_folder_is_followed(tree, state):
    state.with_name("real").mkdir()
    state.symlink_to("real")
    with exclusive_lock(RootFS(str(tree))):
        assert list(state.with_name("real").glob("gdrkit/fix/*/lock"))


def test_a_second_run_is_told_that_one_is_running_and_to_wait(tree, state):
    root = RootFS(str(tree))
    with exclusive_lock(root), pytest.raises(AlreadyRunning) as refused, exclusive_lock(root):
        pass
    found = refused.value
    assert (str(found), found.hint) == ("another gdr fix is running", "wait for it to finish")


def test_the_journal_of_this_machine_stays_where_it_was():
    assert store.home(RootFS("/")) == "/var/lib/gdrkit/fix"


def test_two_trees_have_two_journals_and_two_names_of_one_tree_have_one(tree, tmp_path):
    (tmp_path / "name").symlink_to(tree)
    (tmp_path / "other").mkdir()
    homes = [store.home(RootFS(str(tmp_path / name))) for name in ("tree", "name", "other")]
    assert homes[0] == homes[1] != homes[2]


# -- status reads -----------------------------------------------------------------------------------------


def test_status_creates_nothing(tree, state, capsys):
    assert main(["fix", "--status", "--root", str(tree)]) == 0
    assert "no runs" in capsys.readouterr().out
    assert not state.exists() and sorted(p.name for p in tree.iterdir()) == ["etc"]


def test_status_truncates_nothing(tree, tmp_path, capsys):
    root = RootFS(str(tree))
    journal = new_run(root, RUN[:-3])
    path = Path(journal.folder) / "journal.jsonl"
    content = lines(planted(tmp_path / "marker")) + b'{"type":"int'
    path.write_bytes(content)
    assert main(["fix", "--status", "--root", str(tree)]) == 0
    assert RUN in capsys.readouterr().out and path.read_bytes() == content
    assert sorted(p.name for p in path.parent.parent.iterdir()) == [RUN]


# -- faults of disks and files ----------------------------------------------------------------------------


def test_bytes_that_are_not_utf_8_in_a_journal_are_an_error_with_its_place(tree, tmp_path, capsys):
    journal = new_run(RootFS(str(tree)), RUN[:-3])
    content = lines(planted(tmp_path / "marker")).replace(b'"nccl"', b'"\xff"')
    (Path(journal.folder) / "journal.jsonl").write_bytes(content)
    for mode in ("--status", "--undo", "--resume"):
        assert main(["fix", mode, "--root", str(tree)]) == 2
        error = capsys.readouterr().err
        assert f"{journal.folder}: line 1 of the journal is damaged" in error and "internal" not in error


@pytest.mark.parametrize("number", [28, 30], ids=["full", "read-only"])
def test_a_disk_that_takes_nothing_is_one_line_and_its_own_code(tree, capsys, monkeypatch, number):
    def failing(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", failing)
    assert main(["fix", "--resume", "--root", str(tree)]) == 74
    error = capsys.readouterr().err
    assert os.strerror(number).lower() in error and "internal" not in error and "--status" in error


@needs_depmod
@pytest.mark.parametrize(("key", "certificate"), [("own.key", "none"), ("none", "own.der"), ("", "own.der")])
def test_a_key_or_certificate_that_cannot_be_read_is_one_line_before_any_change(
    tmp_path, capsys, key, certificate
):
    root = machine(tmp_path / "root")
    code = main(
        ["fix", "--apply", "--yes", "--steps", "sign-module", "--root", str(root), "--key",
         f"/etc/keys/{key}", "--certificate", f"/etc/keys/{certificate}"]
    )  # fmt: skip
    error = capsys.readouterr().err
    assert code == 2 and "/etc/keys" in error and "internal" not in error
    assert runs(RootFS(str(root))) == ()


# -- programs ---------------------------------------------------------------------------------------------


@needs_depmod
def test_a_program_in_the_current_folder_is_not_run_and_the_journal_has_absolute_names(
    tmp_path, monkeypatch
):
    root = machine(tmp_path / "root")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("depmod", "modprobe"):
        (folder / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (folder / name).chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", f".:{folder}")
    monkeypatch.setenv("LD_PRELOAD", f"{folder}/none.so")
    code = main(["fix", "--apply", "--yes", "--steps", "remove-nv-peer-mem", "--root", str(root)])
    assert code == 0 and not (tmp_path / "ran").exists()
    journal = Journal(RootFS(str(root)), runs(RootFS(str(root)))[0])
    journal.read()
    procedure = journal.procedure_for_step(0)
    assert procedure is not None
    programs = {
        argv[0]
        for a in procedure.actions
        if isinstance(a, RunCommand)
        for argv in (a.argv, a.in_root)
        if argv
    }
    assert programs == {shutil.which("depmod", path=commands.SEARCH_PATH)}


def test_a_command_sees_an_environment_of_ours_alone(monkeypatch):
    for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "BASH_ENV", "HOME", "PATH"):
        monkeypatch.setenv(name, "/planted")
    code, output = commands.run_captured(("env",))
    found = dict(line.split("=", 1) for line in output.splitlines())
    assert code == 0 and found == commands.ENVIRONMENT
