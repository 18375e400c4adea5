"""The part of `gdr fix` that changes a machine: --apply, --resume, --undo; and --status."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import can_ask, colours, text_width, write
from gdrkit.cli.exit import BLOCKED, BUSY, NO_OUTPUT, NO_PERMISSION, OK, UNKNOWN, WARNING
from gdrkit.diagnosis import diagnose
from gdrkit.evidence import Host
from gdrkit.repair.apply.errors import AlreadyRunning, ApplyError
from gdrkit.repair.apply.journal import VerdictSnapshot

if TYPE_CHECKING:
    from gdrkit.repair.apply.journal import Journal, VerdictSnapshot
    from gdrkit.repair.apply.passwords import Passwords
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.apply.runner import ConfirmStep, RunOutcome
    from gdrkit.repair.platforms.action import Procedure
    from gdrkit.repair.remedies.remedy import Remedy
    from gdrkit.report.fix_document import FixReport, StepSection

# -- the verdict on a host, in the form that a journal of `gdr fix` keeps and compares later --


def take_snapshot(host: Host, consumer: str) -> VerdictSnapshot:
    """What doctor says now: states by consumer, findings, and what keeps nvidia-peermem from loading."""
    report = diagnose(host, consumer)
    return VerdictSnapshot(
        states={name: section.state for name, section in report.consumers.items()},
        findings=tuple(sorted(f"{f.status} {f.code} {f.subject}" for f in report.findings)),
        peermem="unknown" if report.modprobe is None else report.modprobe.reason,
    )


Plan = Callable[[], "FixReport"]
_NOT_DONE = "gdr fix --status shows whether a run began; --resume continues it, --undo undoes it"
_NO_TERMINAL = ("cannot ask for confirmation: no terminal", "--yes carries out every step without asking")


def carry_out(options: argparse.Namespace, plan: Plan) -> int:
    """Apply, resume, undo or show runs; returns an exit code. Expected errors print one line and a hint."""
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.apply.runner import exclusive_lock

    try:
        root = RootFS(options.root)
        _mention_journal_inside(root)
        if options.status:
            return _status(root)
        if root.is_machine and (code := _check_permitted(options, plan)):
            return code
        with exclusive_lock(root):
            if options.undo:
                return _undo(options, root)
            return _resume(options, root) if options.resume else _apply(options, root, plan)
    except AlreadyRunning as error:
        return _print_error(error, BUSY)
    except ApplyError as error:
        return _print_error(error, BLOCKED)
    except PermissionError as error:
        sys.stderr.write(f"gdr fix: {error.filename}: {(error.strerror or '').lower()}\n")
        return NO_PERMISSION
    except OSError as error:
        name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        why = ApplyError(f"{name}{(error.strerror or str(error)).lower()}", _NOT_DONE)
        return _print_error(why, NO_OUTPUT)


def _mention_journal_inside(root: RootFS) -> None:
    from gdrkit.repair.apply.store import MACHINE

    inside = f"{root.path}{MACHINE}"
    if not root.is_machine and os.path.lexists(inside):
        sys.stderr.write(f"gdr fix: ignored: {inside}: a journal inside a tree is not trusted\n")


def _print_error(error: ApplyError, code: int) -> int:
    sys.stderr.write(f"gdr fix: {error}\n" + (f"  {error.hint}\n" if error.hint else ""))
    return code


def _check_permitted(options: argparse.Namespace, plan: Plan) -> int:
    """0 if this process may change the machine; else prints why not, and returns an exit code."""
    from gdrkit.evidence.live import LiveHost
    from gdrkit.facts.virtual import scope
    from gdrkit.node import Node, if_missing

    if os.geteuid() != 0:
        sys.stderr.write("gdr fix: root is required; gdr does not call sudo itself\n")
        if options.apply:
            for chosen in plan().plans[(options.plan or 1) - 1 : options.plan or 1]:
                for step in chosen.steps:
                    sys.stderr.write(
                        f"  {step.remedy}: {'needs root' if step.needs_root else 'does not need root'}\n"
                    )
        return NO_PERMISSION
    inside = if_missing(False, lambda: scope(Node(LiveHost())) == "container")
    if inside:
        sys.stderr.write(
            "gdr fix: this is a container\n  run gdr fix on the host: it changes the host's kernel modules\n"
        )
        return BLOCKED
    return 0


# -- apply, resume --------------------------------------------------------------------------------------


def _apply(options: argparse.Namespace, root: RootFS, plan: Plan) -> int:
    from gdrkit import __version__
    from gdrkit.repair.apply.runner import begin_run
    from gdrkit.repair.platforms.choices import ProcedureChoices

    report = plan()
    if not report.plans:
        from gdrkit.report.fix_text import fix_text

        coloured = colours()
        write(fix_text(report, colour=coloured, width=text_width()), styled=coloured)
        return exit_code_without_plan(report)
    if not options.yes and not can_ask():
        raise ApplyError(*_NO_TERMINAL)
    if report.gains_nothing:
        write(f"no step brings a direct path here: {report.gains_nothing}\n\n")
    steps = tuple(step.remedy for step in report.plans[(options.plan or 1) - 1].steps)
    choices = ProcedureChoices(
        key=options.key and os.path.abspath(options.key),
        certificate=options.certificate and os.path.abspath(options.certificate),
        digest=options.digest,
        enrol=not options.no_enrol,
        acs=options.acs,
    )
    passwords = _passwords(options)
    _check_key(root, choices.key, choices.certificate, passwords)
    journal = begin_run(root, steps, choices, options.consumer, __version__, take_snapshot)
    return _run(options, journal, passwords)


def exit_code_without_plan(report: FixReport) -> int:
    """The exit code for a report without a plan."""
    if report.aim == "verdict" and report.verdict.state in ("ready", "active", "impossible"):
        return OK
    return UNKNOWN if report.verdict.state == "unknown" else BLOCKED


def _check_key(root: RootFS, key: str, certificate: str, passwords: Passwords) -> None:
    """Check that the user's key can be used, before anything changes. Raises ApplyError."""
    if key:
        from gdrkit.repair.apply.executor import read_given, read_key
        from gdrkit.repair.apply.signing import signer

        public, _ = read_given(root, certificate, "certificate")
        signer(read_key(root, key), public, passwords.key_password)


def _resume(options: argparse.Namespace, root: RootFS) -> int:
    from gdrkit.repair.apply.runner import unfinished_run

    journal = unfinished_run(root)
    if journal is None:
        write("nothing to resume\n")
        return OK
    return _run(options, journal, _passwords(options))


def _run(options: argparse.Namespace, journal: Journal, passwords: Passwords) -> int:
    from gdrkit.repair.apply.journal import ActionIntent
    from gdrkit.repair.apply.reverter import Reverter
    from gdrkit.repair.apply.runner import Runner

    try:
        outcome = Runner(journal, passwords, _notify, _confirmation(options), take_snapshot).run()
    except ApplyError as error:
        if not error.hint:
            error.hint = "gdr fix --resume tries again, gdr fix --undo undoes what was done"
        raise
    else:
        if outcome.status == "declined" and not any(isinstance(r, ActionIntent) for r in journal.records):
            Reverter(journal, passwords, _notify).revert()
            write("\nstopped; nothing was changed\n")
            return WARNING
    finally:
        journal.close()
    return _outcome(outcome)


def _notify(line: str) -> None:
    write(f"   {line}\n")
    sys.stdout.flush()


def _confirmation(options: argparse.Namespace) -> ConfirmStep:
    """A function that shows a step and asks whether to carry it out."""

    def confirm(number: int, remedy: Remedy, procedure: Procedure) -> bool:
        from gdrkit.report.fix_text import step_text

        if not options.quiet or not options.yes:
            write(step_text(_section(remedy, procedure), f"{number + 1}. ", text_width()))
            sys.stdout.flush()
        if options.yes:
            return True
        if not can_ask():
            raise ApplyError(*_NO_TERMINAL)
        return input("   carry out this step? [y/N] ").strip().lower() in ("y", "yes")

    return confirm


def _section(remedy: Remedy, procedure: Procedure) -> StepSection:
    from gdrkit.report.fix import actions
    from gdrkit.report.fix_document import StepSection

    return StepSection(
        remedy=remedy.name, title=remedy.title, because=(), effect=remedy.becomes, risk=remedy.risk,
        undo="gdr fix --undo", platform=procedure.platform, needs_root=remedy.needs_root,
        needs_reboot=remedy.needs_reboot, never_executed=procedure.never_executed,
        by_hand=procedure.by_hand, actions=actions(procedure),
    )  # fmt: skip


def _passwords(options: argparse.Namespace) -> Passwords:
    from gdrkit.repair.apply.passwords import Passwords, prompt_password, read_password

    key = None
    if options.key_password_fd is not None:
        key = read_password(options.key_password_fd)
    elif options.ask_key_password:
        key = prompt_password("password of the signing key: ", twice=not options.key)
    mok = None if options.mok_password_fd is None else read_password(options.mok_password_fd)
    return Passwords(key, mok)


def _outcome(outcome: RunOutcome) -> int:
    if outcome.status == "reboot":
        write("\nreboot now, then run: gdr fix --resume\n")
        return WARNING
    if outcome.status == "declined":
        write("\nstopped; gdr fix --resume continues, gdr fix --undo undoes what was done\n")
        return WARNING
    write(f"\ndone; to undo: gdr fix --undo {outcome.run}\n")
    if outcome.after is not None:
        _print_changes(outcome.before, outcome.after)
    return OK


def _print_changes(before: VerdictSnapshot, after: VerdictSnapshot) -> None:
    for consumer, state in after.states.items():
        was = before.states.get(consumer, "?")
        write(f"   {consumer}: {was if was == state else f'{was} -> {state}'}\n")
    if before.peermem != after.peermem:
        meanings = {"": "loads", "unknown": "unknown whether it loads"}
        was, now = (meanings.get(reason, reason) for reason in (before.peermem, after.peermem))
        write(f"   nvidia-peermem: {was} -> {now}\n")


# -- undo, status ---------------------------------------------------------------------------------------


def _undo(options: argparse.Namespace, root: RootFS) -> int:
    from gdrkit.repair.apply.journal import Journal, runs
    from gdrkit.repair.apply.reverter import Reverter
    from gdrkit.repair.apply.runner import host_of, newest_not_undone

    journal: Journal | None
    if options.undo == "last":
        journal = newest_not_undone(root)
    elif options.undo in runs(root):
        journal = Journal(root, options.undo)
        journal.open()
    else:
        raise ApplyError(f"there is no run {options.undo}", "gdr fix --status lists the runs")
    if journal is None or journal.is_undone or not journal.is_begun:
        write("nothing to undo\n")
        return OK
    kept = Reverter(journal, _passwords(options), _notify, force=options.force).revert()
    begun = journal.begin
    journal.close()
    after = take_snapshot(host_of(root), begun.consumer)
    same = (after.states, after.findings, after.peermem) == (
        begun.before.states,
        begun.before.findings,
        begun.before.peermem,
    )
    write(f"run {journal.run} is undone\n")
    if kept:
        write("   left alone (changed since the run): " + ", ".join(kept) + "\n")
    if same:
        write("   the verdict is the same as before the run\n")
    else:
        write("   the verdict is not yet the same as before the run; loaded modules stay until a reboot\n")
        for line in _differences(begun.before.findings, after.findings):
            write(f"      {line}\n")
        _print_changes(begun.before, after)
    return WARNING if kept or not same else OK


def _differences(before: Sequence[str], after: Sequence[str]) -> list[str]:
    gone = [f"gone: {line}" for line in before if line not in after]
    return gone + [f"new: {line}" for line in after if line not in before]


def _status(root: RootFS) -> int:
    """Print every run, newest last."""
    from gdrkit.repair.apply.journal import Journal, runs

    found = runs(root)
    if not found:
        write("no runs on this machine\n" if root.is_machine else f"no runs on {root.path}\n")
    for run in found:
        journal = Journal(root, run)
        journal.read()
        steps = ", ".join(journal.begin.steps) if journal.is_begun else "nothing was changed"
        write(f"{run}  {_state(journal):<15}  {steps}\n")
    return OK


def _state(journal: Journal) -> str:
    if not journal.is_begun:
        return "not begun"
    if journal.is_undone:
        return "undone"
    if journal.is_undoing:
        return "undo unfinished"
    if journal.is_finished:
        return "finished"
    return "reboot needed" if journal.reboot is not None else "unfinished"
