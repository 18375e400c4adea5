"""The part of `gdr fix` that changes a machine: asks, carries out, goes on, takes back, tells."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import write
from gdrkit.cli.exit import BLOCKED, BUSY, NO_PERMISSION, OK, UNKNOWN, WARNING
from gdrkit.repair.apply.errors import AlreadyRunning, ApplyError

if TYPE_CHECKING:
    from gdrkit.repair.apply.journal import Journal, VerdictSnapshot
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.apply.runner import Confirm, RunOutcome
    from gdrkit.repair.apply.secrets import Secrets
    from gdrkit.repair.platforms.action import Procedure
    from gdrkit.repair.remedies.remedy import Remedy
    from gdrkit.report.fix_document import FixReport, StepSection

Plan = Callable[[], "FixReport"]


def carry_out(options: argparse.Namespace, plan: Plan) -> int:
    """Do what the options say; returns an exit code. Every expected trouble is one line, and a hint."""
    from gdrkit.repair.apply.root_fs import RootFS
    from gdrkit.repair.apply.runner import alone

    try:
        place = RootFS(options.root)
        if options.status:
            return _status(place)
        if place.is_machine and (code := _refused(options, plan)):
            return code
        with alone(place):
            if options.undo:
                return _undo(options, place)
            return _resume(options, place) if options.resume else _apply(options, place, plan)
    except AlreadyRunning as error:
        return _told(error, BUSY)
    except ApplyError as error:
        return _told(error, BLOCKED)
    except PermissionError as error:
        sys.stderr.write(f"gdr fix: {error.filename}: {(error.strerror or '').lower()}\n")
        return NO_PERMISSION


def _told(error: ApplyError, code: int) -> int:
    sys.stderr.write(f"gdr fix: {error}\n" + (f"  {error.hint}\n" if error.hint else ""))
    return code


def _refused(options: argparse.Namespace, plan: Plan) -> int:
    """Why this process may not change the machine: an exit code, 0 if it may."""
    from gdrkit.evidence.live import LiveHost
    from gdrkit.facts.virtual import scope
    from gdrkit.node import Node, if_missing

    if os.geteuid() != 0:
        sys.stderr.write("gdr fix: this needs root, and gdr calls no sudo by itself\n")
        if options.apply:
            for way in plan().ways[options.way - 1 : options.way]:
                for step in way.steps:
                    sys.stderr.write(
                        f"  {step.remedy}: {'needs root' if step.needs_root else 'needs no root'}\n"
                    )
        return NO_PERMISSION
    inside = if_missing(False, lambda: scope(Node(LiveHost())) == "container")
    if inside:
        sys.stderr.write("gdr fix: this is a container\n  run it on the host, whose kernel it is about\n")
        return BLOCKED
    return 0


# -- doing ----------------------------------------------------------------------------------------------


def _apply(options: argparse.Namespace, place: RootFS, plan: Plan) -> int:
    from gdrkit import __version__
    from gdrkit.cli.verdict_snapshot import take_snapshot
    from gdrkit.repair.apply.runner import begin
    from gdrkit.repair.platforms.choices import ProcedureChoices

    report = plan()
    if not report.ways:
        from gdrkit.report.fix_text import fix_text

        write(fix_text(report))
        return without_a_way(report)
    if not 1 <= options.way <= len(report.ways):
        raise ApplyError(f"there is no way {options.way}", f"there are {len(report.ways)}")
    if not options.yes and not sys.stdin.isatty():
        raise ApplyError("there is nobody to ask", "--yes takes every step without asking")
    steps = tuple(step.remedy for step in report.ways[options.way - 1].steps)
    choices = ProcedureChoices(
        key=options.key and os.path.abspath(options.key),
        certificate=options.certificate and os.path.abspath(options.certificate),
        digest=options.digest,
        enrol=not options.no_enrol,
        acs=options.acs,
    )
    secrets = _secrets(options)
    _check_key(place, choices.key, choices.certificate, secrets)
    journal = begin(place, steps, choices, options.consumer, __version__, take_snapshot)
    return _go(options, journal, secrets)


def without_a_way(report: FixReport) -> int:
    """The exit code of a plan that holds no way."""
    if report.aim == "verdict" and report.verdict.state in ("ready", "active", "impossible"):
        return OK
    return UNKNOWN if report.verdict.state == "unknown" else BLOCKED


def _check_key(place: RootFS, key: str, certificate: str, secrets: Secrets) -> None:
    """That somebody else's key can be used, before anything is changed. Raises ApplyError."""
    if key:
        from gdrkit.repair.apply.executor import read_key
        from gdrkit.repair.apply.signing import signer

        signer(read_key(place, key), place.read(certificate), secrets.key_password)


def _resume(options: argparse.Namespace, place: RootFS) -> int:
    from gdrkit.repair.apply.runner import unfinished

    journal = unfinished(place)
    if journal is None:
        write("there is nothing to go on with\n")
        return OK
    return _go(options, journal, _secrets(options))


def _go(options: argparse.Namespace, journal: Journal, secrets: Secrets) -> int:
    from gdrkit.cli.verdict_snapshot import take_snapshot
    from gdrkit.repair.apply.journal import ActionIntent
    from gdrkit.repair.apply.reverter import Reverter
    from gdrkit.repair.apply.runner import Runner

    try:
        outcome = Runner(journal, secrets, _say, _confirm(options), take_snapshot).go()
    except ApplyError as error:
        if not error.hint:
            error.hint = "gdr fix --resume tries it again, gdr fix --undo takes back what was done"
        raise
    else:
        if outcome.word == "declined" and not any(isinstance(r, ActionIntent) for r in journal.records):
            Reverter(journal, secrets, _say).take_back()
            write("\nnothing was changed\n")
            return WARNING
    finally:
        journal.close()
    return _outcome(outcome)


def _say(line: str) -> None:
    write(f"   {line}\n")
    sys.stdout.flush()


def _confirm(options: argparse.Namespace) -> Confirm:
    """How a step is shown and agreed to."""

    def confirm(number: int, remedy: Remedy, how: Procedure) -> bool:
        from gdrkit.report.fix_text import step_lines

        if not options.quiet or not options.yes:
            write("\n".join(step_lines(_section(remedy, how), f"{number + 1}. ")) + "\n")
            sys.stdout.flush()
        if options.yes:
            return True
        if not sys.stdin.isatty():
            raise ApplyError("there is nobody to ask", "--yes takes every step without asking")
        return input("   take this step? [y/N] ").strip().lower() in ("y", "yes")

    return confirm


def _section(remedy: Remedy, how: Procedure) -> StepSection:
    from gdrkit.report.fix import actions
    from gdrkit.report.fix_document import StepSection

    return StepSection(
        remedy=remedy.name, title=remedy.title, because=(), effect=remedy.becomes, risk=remedy.risk,
        undo="gdr fix --undo", platform=how.platform, needs_root=remedy.needs_root,
        needs_reboot=remedy.needs_reboot, never_executed=how.never_executed, by_hand=how.by_hand,
        actions=actions(how),
    )  # fmt: skip


def _secrets(options: argparse.Namespace) -> Secrets:
    from gdrkit.repair.apply.secrets import Secrets, asked, from_descriptor

    key = None
    if options.key_password_fd is not None:
        key = from_descriptor(options.key_password_fd)
    elif options.ask_key_password:
        key = asked("password of the signing key: ", twice=not options.key)
    mok = None if options.mok_password_fd is None else from_descriptor(options.mok_password_fd)
    return Secrets(key, mok)


def _outcome(outcome: RunOutcome) -> int:
    if outcome.word == "reboot":
        write("\nnow reboot; then: gdr fix --resume\n")
        return WARNING
    if outcome.word == "declined":
        write("\nstopped; gdr fix --resume goes on, gdr fix --undo takes back what was done\n")
        return WARNING
    write(f"\ndone; gdr fix --undo {outcome.run} takes it back\n")
    if outcome.after is not None:
        _compare(outcome.before, outcome.after)
    return OK


def _compare(before: VerdictSnapshot, after: VerdictSnapshot) -> None:
    for consumer, state in after.states.items():
        was = before.states.get(consumer, "?")
        write(f"   {consumer}: {was if was == state else f'{was} -> {state}'}\n")
    if before.peermem != after.peermem:
        words = {"": "loads", "unknown": "cannot be told"}
        was, now = (words.get(word, word) for word in (before.peermem, after.peermem))
        write(f"   nvidia-peermem: {was} -> {now}\n")


# -- undoing, telling -----------------------------------------------------------------------------------


def _undo(options: argparse.Namespace, place: RootFS) -> int:
    from gdrkit.cli.verdict_snapshot import take_snapshot
    from gdrkit.repair.apply.journal import Journal, runs
    from gdrkit.repair.apply.reverter import Reverter
    from gdrkit.repair.apply.runner import host_of, last_standing

    journal: Journal | None
    if options.undo == "last":
        journal = last_standing(place)
    elif options.undo in runs(place):
        journal = Journal(place, options.undo)
        journal.open()
    else:
        raise ApplyError(f"there is no run {options.undo}", "gdr fix --status lists them")
    if journal is None or journal.is_undone or not journal.is_begun:
        write("there is nothing to take back\n")
        return OK
    kept = Reverter(journal, _secrets(options), _say, force=options.force).take_back()
    begun = journal.begin
    journal.close()
    after = take_snapshot(host_of(place), begun.consumer)
    same = (after.states, after.findings, after.peermem) == (
        begun.before.states,
        begun.before.findings,
        begun.before.peermem,
    )
    write(f"run {journal.run} is taken back\n")
    if kept:
        write("   left alone, since somebody changed them: " + ", ".join(kept) + "\n")
    if same:
        write("   the verdict is the one from before\n")
    else:
        write("   the verdict is not yet the one from before; what is loaded stays until a reboot\n")
        for line in _differences(begun.before.findings, after.findings):
            write(f"      {line}\n")
        _compare(begun.before, after)
    return WARNING if kept or not same else OK


def _differences(before: Sequence[str], after: Sequence[str]) -> list[str]:
    gone = [f"gone: {line}" for line in before if line not in after]
    return gone + [f"new: {line}" for line in after if line not in before]


def _status(place: RootFS) -> int:
    """Every run, the newest last."""
    from gdrkit.repair.apply.journal import Journal, runs

    found = runs(place)
    if not found:
        write("nothing was done here\n")
    for run in found:
        journal = Journal(place, run)
        journal.open()
        if journal.is_begun:
            write(f"{run}  {_word(journal):<10}  {', '.join(journal.begin.steps)}\n")
        journal.close()
    return OK


def _word(journal: Journal) -> str:
    if journal.is_undone:
        return "undone"
    if journal.is_undoing:
        return "half undone"
    if journal.is_finished:
        return "finished"
    return "reboot" if journal.reboot is not None else "unfinished"
