"""`gdr fix` on the command line."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from gdrkit.cli import fix_apply
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.report import fix_text
from tests.cli.forked import Ended, gdr
from tests.evidence_nodes import laid_down
from tests.module_builder import RELEASE
from tests.repair.apply.scratch import machine, needs_depmod, snapshot

GDR = Path(sys.executable).parent / "gdr"
PASSWORD = "correct horse battery staple"
ALL = "allow-module,sign-module,load-peermem,raise-memlock,override-topology-check"


def fix(*words: str) -> Ended:
    return gdr(["fix", *words])


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of journals of trees that are not this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/gdrkit/fix"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return machine(tmp_path / "root")


def test_a_bundle_gets_a_plan_with_commands_risks_and_the_verdict_after_each_step():
    run = fix(str(laid_down("ofed-rebuilt")))
    assert run.code == 0
    for word in (
        "$ sudo dkms build -m nvidia",
        "risk",
        "needs    root",
        "undo",
        "then     verdict ready",
        "not tested",
    ):
        assert word in run.out, word


def test_json_has_the_same_plan():
    run = fix(str(laid_down("ofed-rebuilt")), "--json")
    document = json.loads(run.out)
    assert document["schema"] == "gdrkit.fix/1" and document["verdict"]["state"] == "blocked"
    last = document["plans"][0]["steps"][-1]
    assert last["then"]["state"] == "ready" and {"risk", "undo", "actions", "needs_reboot"} <= last.keys()


def test_unsupported_hardware_gets_no_plan():
    run = fix(str(laid_down("zgx-3285")))
    assert run.code == 0 and "cannot be fixed" in run.out and "sign" not in run.out


def test_a_system_that_boots_an_image_gets_its_own_words():
    run = fix(str(laid_down("talos")), "--steps", "raise-memlock,rebuild-driver")
    assert "capability IPC_LOCK" in run.out and " $ " not in run.out
    assert "not possible here: on Talos, no OFED is built" in run.out


@pytest.mark.parametrize("flag", ["--apply", "--resume", "--undo"])
def test_another_machine_is_never_changed(flag, tmp_path):
    run = fix(str(tmp_path), flag)
    assert run.code == 64 and "this machine only" in run.err


def test_an_unknown_step_is_wrong_usage():
    run = fix(str(laid_down("no-gpu")), "--steps", "reinstall-windows")
    assert run.code == 64 and "unknown step: 'reinstall-windows'" in run.err


@needs_depmod
def test_undo_restores_every_file(root):
    before = snapshot(root)
    run = fix("--apply", "--yes", "--steps", ALL, "--root", str(root))
    assert run.code == 0, run.err
    changed = snapshot(root)
    assert (
        changed != before
        and "unlimited" in (root / "etc/security/limits.d/90-gdrkit-memlock.conf").read_text()
    )
    keys = root / "var/lib/gdrkit/keys"
    assert keys.stat().st_mode & 0o777 == 0o700
    assert (keys / "module-signing.key").stat().st_mode & 0o777 == 0o600
    assert "finished" in fix("--status", "--root", str(root)).out
    run = fix("--undo", "--root", str(root))
    assert run.code == 0 and "the verdict is the same as before the run" in run.out, run.out
    assert snapshot(root) == before
    assert "undone" in fix("--status", "--root", str(root)).out
    assert "nothing to undo" in fix("--undo", "--root", str(root)).out


@needs_depmod
@pytest.mark.parametrize(("option", "enrols"), [([], True), (["--no-enrol"], False)])
def test_a_key_is_enrolled_unless_that_is_declined(option, enrols, root, state):
    """In the printed plan and in a run. Only the machine's own firmware gets a key, so a run records it."""
    words = ("--steps", "sign-module", "--root", str(root), *option)
    plan = fix(*words)
    assert plan.code == 0 and ("mokutil --import" in plan.out) is enrols, plan.out
    assert fix("--apply", "--yes", *words).code == 0
    (journal,) = state.glob("*/*/journal.jsonl")
    assert ("enrol-key" in journal.read_text()) is enrols


@needs_depmod
def test_doctor_accepts_the_signatures_of_signed_modules(root):
    from gdrkit.evidence.target import open_host
    from gdrkit.facts.trust import signature, signature_fault
    from gdrkit.node import Node

    run = fix(
        "--apply", "--yes", "--steps", "sign-module", "--key", "/etc/keys/own.key", "--certificate",
        "/etc/keys/own.der", "--root", str(root),
    )  # fmt: skip
    assert run.code == 0, run.err
    node = Node(open_host(str(root)))
    for name in ("nvidia.ko.xz", "nvidia-peermem.ko"):
        path = f"lib/modules/{RELEASE}/updates/dkms/{name}"
        found = signature(node, path)
        assert found is not None and found.issuer == "A user's key" and not signature_fault(node, path)


@needs_depmod
def test_no_secret_is_printed_or_written(root, state):
    """Creates a protected key with a password from a descriptor."""
    read, write = os.pipe()
    os.write(write, PASSWORD.encode() + b"\n")
    os.close(write)
    run = fix("--apply", "--yes", "--steps", "sign-module", "--key-password-fd", str(read),
              "--root", str(root))  # fmt: skip
    assert run.code == 0, run.err
    private = (root / "var/lib/gdrkit/keys/module-signing.key").read_text()
    assert "ENCRYPTED PRIVATE KEY" in private
    inner = private.splitlines()[1]
    printed = run.out + run.err + fix("--status", "--root", str(root)).out
    bundle = root.parent / "bundle.tar"
    subprocess.run(["tar", "-cf", bundle, "-C", str(state), "."], check=True)
    for secret in (PASSWORD, inner, "PRIVATE KEY"):
        assert secret not in printed
        assert secret.encode() not in bundle.read_bytes()


def test_a_bundle_never_contains_keys_or_journals():
    from gdrkit.agent.collect.sources import covers

    assert covers("etc/os-release")
    for path in ("keys/module-signing.key", "fix/20260101-000000-00/journal.jsonl"):
        assert not covers(f"var/lib/gdrkit/{path}")


@needs_depmod
@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_readable_by_others_is_rejected_before_any_change(root, mode):
    (root / "etc/keys/own.key").chmod(mode)
    before = snapshot(root)
    run = fix("--apply", "--yes", "--steps", "sign-module", "--key", "/etc/keys/own.key",
              "--certificate", "/etc/keys/own.der", "--root", str(root))  # fmt: skip
    assert run.code == 2 and "accessible to users other than its owner" in run.err
    assert snapshot(root) == before


@needs_depmod
def test_a_second_run_at_the_same_time_is_refused(root, state):
    assert fix("--resume", "--root", str(root)).out == "nothing to resume\n"
    (folder,) = state.iterdir()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root))
    assert run.code == 75 and "another gdr fix" in run.err


@needs_depmod
def test_without_a_terminal_or_yes_nothing_is_done(root):
    before = snapshot(root)
    run = fix("--apply", "--steps", "raise-memlock", "--root", str(root))
    assert run.code == 2 and "no terminal" in run.err and "--yes" in run.err
    assert snapshot(root) == before and "no runs" in fix("--status", "--root", str(root)).out


def typed(root: Path, answers: str, *words: str) -> tuple[int, str]:
    """Exit code and output with answers typed at a terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([GDR, "fix", *words, "--root", str(root)], stdin=theirs, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)  # fmt: skip
    os.close(theirs)
    os.write(ours, answers.encode())
    output, _ = child.communicate(timeout=120)
    os.close(ours)
    return child.returncode, output


@needs_depmod
def test_a_run_stopped_at_the_second_step_can_be_resumed(root):
    driver = root / "proc/driver/nvidia"
    driver.mkdir(parents=True, exist_ok=True)
    (driver / "params").write_text("GrdmaPciTopoCheckOverride: 0\n")  # of a driver that has it
    before = snapshot(root)
    steps = ("--apply", "--steps", "persist-peermem,override-topology-check")
    code, output = typed(root, "n\n", *steps)
    assert code == 1 and "nothing was changed" in output and snapshot(root) == before
    code, output = typed(root, "y\nn\n", *steps)
    assert code == 1 and "stopped" in output
    assert (root / "etc/modules-load.d/nvidia-peermem.conf").exists()
    assert not (root / "etc/modprobe.d/zz-gdrkit-override-topology-check.conf").exists()
    run = fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root))
    assert run.code == 2 and "is not finished" in run.err
    assert fix("--resume", "--yes", "--root", str(root)).code == 0
    assert (root / "etc/modprobe.d/zz-gdrkit-override-topology-check.conf").exists()
    assert fix("--undo", "--root", str(root)).code == 0
    assert snapshot(root) == before


@needs_depmod
def test_a_file_changed_since_the_run_is_left_alone_and_named(root):
    assert fix("--apply", "--yes", "--steps", "raise-memlock", "--root", str(root)).code == 0
    path = root / "etc/security/limits.d/90-gdrkit-memlock.conf"
    path.write_text("# mine now\n")
    run = fix("--undo", "--root", str(root))
    assert run.code == 1 and str(path.relative_to(root)) in run.out
    assert path.read_text() == "# mine now\n"


@needs_depmod
def test_a_file_that_changed_since_the_plan_stops_the_run(root, tmp_path):
    from gdrkit.repair.apply.errors import ApplyError
    from gdrkit.repair.apply.executor import Executor
    from gdrkit.repair.apply.journal import new_run
    from gdrkit.repair.apply.passwords import Passwords
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.platforms.action import WriteFile

    journal = new_run(RootFS(str(root)), "20260101-000000")
    journal.open()
    executor = Executor(journal, Passwords(), lambda line: None)
    action = WriteFile(path="/etc/nccl.conf", content="x", why="y", was="0" * 64)
    with pytest.raises(ApplyError, match="changed since the plan was made"):
        executor.execute(0, 0, action)
    assert not journal.records


def test_without_root_the_steps_that_need_it_are_listed(monkeypatch, capsys):
    from gdrkit.cli import main

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert main(["fix", "--apply", "--steps", "raise-memlock,upgrade-nccl"]) == 77
    printed = capsys.readouterr().err
    assert "root is required" in printed
    assert "raise-memlock: needs root" in printed and "upgrade-nccl: does not need root" in printed


def test_without_a_terminal_no_step_is_carried_out_that_nobody_confirmed(monkeypatch):
    """Also of a run that is resumed."""
    monkeypatch.setattr(fix_apply, "can_ask", lambda: False)
    monkeypatch.setattr(fix_apply, "_section", lambda remedy, procedure: None)
    monkeypatch.setattr(fix_text, "step_text", lambda *words: "")
    with pytest.raises(ApplyError, match="cannot ask for confirmation: no terminal"):
        fix_apply._confirmation(Namespace(quiet=True, yes=False))(0, None, None)
    assert fix_apply._confirmation(Namespace(quiet=True, yes=True))(0, None, None)
