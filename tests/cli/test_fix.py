"""`gdr fix` as somebody types it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evidence_nodes import build
from tests.module_builder import RELEASE
from tests.repair.apply.scratch import machine, needs_depmod, snapshot

GDR = Path(sys.executable).parent / "gdr"
PASSWORD = "correct horse battery staple"
ALL = "allow-module,sign-module,load-peermem,raise-memlock,override-topology-check"


def fix(*words: str, fds: tuple[int, ...] = (), stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([GDR, "fix", *words], capture_output=True, text=True, pass_fds=fds, input=stdin)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path / "root")


def test_a_bundle_gets_a_plan_with_commands_risks_and_the_verdict_after_each_step(tmp_path):
    run = fix(str(build("ofed-rebuilt", tmp_path)))
    assert run.returncode == 0
    for word in (
        "$ dkms build -m nvidia",
        "risk",
        "needs    root",
        "undo",
        "then     ready",
        "nobody has run",
    ):
        assert word in run.stdout, word


def test_json_has_the_same_plan(tmp_path):
    run = fix(str(build("ofed-rebuilt", tmp_path)), "--json")
    told = json.loads(run.stdout)
    assert told["schema"] == "gdrkit.fix/1" and told["verdict"]["state"] == "blocked"
    last = told["ways"][0]["steps"][-1]
    assert last["then"]["state"] == "ready" and {"risk", "undo", "actions", "needs_reboot"} <= last.keys()


def test_hardware_that_can_never_do_it_gets_no_plan(tmp_path):
    run = fix(str(build("zgx-3285", tmp_path)))
    assert run.returncode == 0 and "nothing fixes this hardware" in run.stdout and "sign" not in run.stdout


def test_an_unknown_distribution_is_told_what_must_become_true_without_commands(tmp_path):
    run = fix(str(build("talos", tmp_path)), "--steps", "raise-memlock,rebuild-driver")
    assert "see to it that RLIMIT_MEMLOCK is unlimited" in run.stdout and " $ " not in run.stdout


@pytest.mark.parametrize("flag", ["--apply", "--resume", "--undo"])
def test_another_machine_is_never_changed(flag, tmp_path):
    run = fix(str(tmp_path), flag)
    assert run.returncode == 64 and "this machine alone" in run.stderr


def test_a_step_that_does_not_exist_is_wrong_usage(tmp_path):
    run = fix(str(build("no-gpu", tmp_path)), "--steps", "reinstall-windows")
    assert run.returncode == 64 and "there is no step reinstall-windows" in run.stderr


@needs_depmod
def test_applied_then_undone_everything_is_as_it_was(root):
    before = snapshot(root)
    run = fix("--apply", "--yes", "--steps", ALL, "--root", str(root))
    assert run.returncode == 0, run.stderr
    changed = snapshot(root)
    assert (
        changed != before
        and "unlimited" in (root / "etc/security/limits.d/90-gdrkit-memlock.conf").read_text()
    )
    keys = root / "var/lib/gdrkit/keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (keys / "module-signing.key").stat().st_mode & 0o777 == 0o600
    assert "finished" in fix("--status", "--root", str(root)).stdout
    run = fix("--undo", "--root", str(root))
    assert run.returncode == 0 and "the verdict is the one from before" in run.stdout, run.stdout
    assert snapshot(root) == before
    assert "undone" in fix("--status", "--root", str(root)).stdout
    assert "nothing to take back" in fix("--undo", "--root", str(root)).stdout


@needs_depmod
def test_modules_are_signed_so_that_doctor_takes_the_signature_for_whole(root):
    from gdrkit.evidence.target import open_host
    from gdrkit.facts.trust import signature, signature_fault
    from gdrkit.node import Node

    run = fix(
        "--apply", "--yes", "--steps", "sign-module", "--key", "/etc/keys/own.key", "--certificate",
        "/etc/keys/own.der", "--root", str(root),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    node = Node(open_host(str(root)))
    for name in ("nvidia.ko.xz", "nvidia-peermem.ko"):
        path = f"lib/modules/{RELEASE}/updates/dkms/{name}"
        found = signature(node, path)
        assert found is not None and found.issuer == "Somebody's key" and not signature_fault(node, path)


@needs_depmod
def test_no_secret_is_in_anything_that_is_printed_or_written(root):
    """A protected key is made; its password comes from a descriptor."""
    read, write = os.pipe()
    os.write(write, PASSWORD.encode() + b"\n")
    os.close(write)
    run = fix("--apply", "--yes", "--steps", "sign-module", "--key-password-fd", str(read),
              "--root", str(root), fds=(read,))  # fmt: skip
    assert run.returncode == 0, run.stderr
    private = (root / "var/lib/gdrkit/keys/module-signing.key").read_text()
    assert "ENCRYPTED PRIVATE KEY" in private
    inner = private.splitlines()[1]
    printed = run.stdout + run.stderr + fix("--status", "--root", str(root)).stdout
    bundle = root.parent / "bundle.tar"
    subprocess.run(["tar", "-cf", bundle, "-C", str(root), "var/lib/gdrkit/fix"], check=True)
    for secret in (PASSWORD, inner, "PRIVATE KEY"):
        assert secret not in printed
        assert secret.encode() not in bundle.read_bytes()


def test_a_bundle_never_holds_keys_or_journals():
    from gdrkit.agent.collect.sources import covers

    assert covers("etc/os-release")
    for path in ("keys/module-signing.key", "fix/20260101-000000-00/journal.jsonl"):
        assert not covers(f"var/lib/gdrkit/{path}")


@needs_depmod
def test_a_key_that_others_can_read_is_refused_before_anything_is_changed(root):
    (root / "etc/keys/own.key").chmod(0o644)
    before = snapshot(root)
    run = fix("--apply", "--yes", "--steps", "sign-module", "--key", "/etc/keys/own.key",
              "--certificate", "/etc/keys/own.der", "--root", str(root))  # fmt: skip
    assert run.returncode == 2 and "others than its owner can read" in run.stderr
    assert snapshot(root) == before


@needs_depmod
def test_two_at_once_are_refused(root):
    folder = root / "var/lib/gdrkit/fix"
    folder.mkdir()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root))
    assert run.returncode == 75 and "another gdr fix" in run.stderr


@needs_depmod
def test_without_anybody_to_ask_nothing_begins(root):
    before = snapshot(root)
    run = fix("--apply", "--steps", "raise-memlock", "--root", str(root))
    assert run.returncode == 2 and "nobody to ask" in run.stderr and "--yes" in run.stderr
    assert snapshot(root) == before and "nothing was done" in fix("--status", "--root", str(root)).stdout


def typed(root: Path, answers: str, *words: str) -> tuple[int, str]:
    """The same on a terminal, where somebody types."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([GDR, "fix", *words, "--root", str(root)], stdin=theirs, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)  # fmt: skip
    os.close(theirs)
    os.write(ours, answers.encode())
    said, _ = child.communicate(timeout=120)
    os.close(ours)
    return child.returncode, said


@needs_depmod
def test_somebody_agrees_to_one_step_and_not_to_the_next_then_goes_on(root):
    before = snapshot(root)
    steps = ("--apply", "--steps", "persist-peermem,override-topology-check")
    code, said = typed(root, "n\n", *steps)
    assert code == 1 and "nothing was changed" in said and snapshot(root) == before
    code, said = typed(root, "y\nn\n", *steps)
    assert code == 1 and "stopped" in said
    assert (root / "etc/modules-load.d/nvidia-peermem.conf").exists()
    assert not (root / "etc/modprobe.d/90-gdrkit-topology.conf").exists()
    run = fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root))
    assert run.returncode == 2 and "is not finished" in run.stderr
    assert fix("--resume", "--yes", "--root", str(root)).returncode == 0
    assert (root / "etc/modprobe.d/90-gdrkit-topology.conf").exists()
    assert fix("--undo", "--root", str(root)).returncode == 0
    assert snapshot(root) == before


@needs_depmod
def test_what_somebody_changed_since_is_left_alone_and_named(root):
    assert fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root)).returncode == 0
    path = root / "etc/security/limits.d/90-gdrkit-memlock.conf"
    path.write_text("# mine now\n")
    run = fix("--undo", "--root", str(root))
    assert run.returncode == 1 and str(path.relative_to(root)) in run.stdout
    assert path.read_text() == "# mine now\n"


@needs_depmod
def test_a_file_that_changed_since_the_plan_stops_the_run(root, tmp_path):
    from gdrkit.repair.apply.errors import ApplyError
    from gdrkit.repair.apply.executor import Executor
    from gdrkit.repair.apply.journal import new_run
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.apply.secrets import Secrets
    from gdrkit.repair.platforms.action import WriteFile

    journal = new_run(RootFS(str(root)), "20260101-000000")
    journal.open()
    doer = Executor(journal, Secrets(), lambda line: None)
    action = WriteFile(path="/etc/nccl.conf", content="x", why="y", was="0" * 64)
    with pytest.raises(ApplyError, match="not what the plan was made from"):
        doer.take(0, 0, action)
    assert not journal.records


def test_without_root_it_says_which_steps_need_it(monkeypatch, capsys):
    from gdrkit.cli import main

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["fix", "--apply", "--steps", "raise-memlock,upgrade-nccl"]) == 77
    said = capsys.readouterr().err
    assert "this needs root" in said
    assert "raise-memlock: needs root" in said and "upgrade-nccl: needs no root" in said
