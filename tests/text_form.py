"""Whether `gdr explain` says of what a node's commands print what `gdr doctor` says of the node, or less."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from machines.printed.commands import printed, session
from machines.printed.files import Files
from msgspec import Struct

from gdrkit.catalogue import consumer_of, rule_of
from gdrkit.evidence.target import open_host
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import AnswerKind, Explanation
from gdrkit.explain.outputs.pasted_host import PastedHost
from gdrkit.node import Node
from gdrkit.rules.rule import CauseTrait, Passed, Status
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import State
from tests.evidence_nodes import described, description, names
from tests.unpacked import unpack


class Said(Struct, frozen=True):
    """What `gdr doctor` says of a node."""

    causes: frozenset[str]  # the codes named as the cause for a program, and all that block one
    failed: frozenset[str]  # codes with a status failed or warning
    seen: frozenset[str]  # these, and notes
    open: frozenset[str]
    passed: frozenset[str]  # codes that hold of nothing on the node
    works: bool  # the first program's GPUs reach the network directly


class Outcome(Struct, frozen=True):
    """What the text says against the node."""

    kind: str  # same; part: something else that the node has; less; other
    named: str  # the cause that the text names; "" if none
    offences: tuple[str, ...]


def said_of(path: Path) -> Said:
    """What the doctor says of the node at a path."""
    verdict = judge_node(Node(open_host(str(path))))
    failed: set[str] = set()
    seen: set[str] = set()
    unknown: set[str] = set()
    for finding in verdict.findings:
        (unknown if finding.status is Status.UNKNOWN else seen).add(finding.code)
        if finding.status in (Status.FAILED, Status.WARNING):
            failed.add(finding.code)
    common = [state for state in verdict.states if consumer_of(state.consumer).common]
    causes = {state.cause.rule.code for state in common if state.cause}
    causes |= {code for state in common if state.worst for code in state.worst.codes}
    first = verdict.states[0].state
    return Said(
        frozenset(causes), frozenset(failed), frozenset(seen), frozenset(unknown),
        _passed(verdict), first in (State.ACTIVE, State.READY),
    )  # fmt: skip


def _passed(verdict: Verdict) -> frozenset[str]:
    codes = {result.rule.code for result in verdict.check_results if isinstance(result.outcome, Passed)}
    return frozenset(codes) - {
        result.rule.code for result in verdict.check_results if not isinstance(result.outcome, Passed)
    }


def compared(said: Said, explanation: Explanation) -> Outcome:
    """The outcome of one text."""
    answer = explanation.answer
    named = answer.cause or ""
    offences = []
    for machine in explanation.machines:
        for problem in machine.established:
            beside = (
                CauseTrait.NOT_LOADED in rule_of(problem.code).traits and problem.code not in said.passed
            )
            if problem.code not in said.seen | said.open and not beside:
                offences.append(f"proves {problem.code} of {problem.subject}: {problem.seen}")
        for note in machine.notes:
            if note.code in said.passed:
                offences.append(f"notes {note.code} of {note.subject}: {note.seen}")
        offences += [f"contradiction: {one.text}" for one in machine.contradictions]
    if named and named not in said.causes | said.failed:
        offences.append(f"names {named} ({answer.sureness})")
    if answer.kind is AnswerKind.ELSEWHERE and said.works:
        offences.append(f"elsewhere: {answer.sentence}")
    if answer.kind in (AnswerKind.WORKING, AnswerKind.HARMLESS) and not said.works:
        offences.append(f"{answer.kind}: {answer.sentence}")
    if not offences and (
        named in (said.failed if said.works else said.causes) or (not named and not said.failed)
    ):
        return Outcome("same", named, ())
    kind = "other" if offences else "part" if named else "less"
    return Outcome(kind, named, tuple(offences))


class TextForm:
    """A node as text: each command with what it prints."""

    def __init__(self, path: Path) -> None:
        self.said = said_of(path)
        with tempfile.TemporaryDirectory() as name:
            folder = _unpacked(path, Path(name))
            self.outputs = printed(folder)
            self.name = Files(folder).name

    def without(self, *commands: str) -> Outcome:
        """The outcome of the text without some commands."""
        kept = {command: text for command, text in self.outputs.items() if command not in commands}
        return compared(self.said, explain(PastedHost(session(kept, self.name))))


def _unpacked(path: Path, to: Path) -> Path:
    """The folder of a bundle or sosreport."""
    if path.is_dir():
        return path
    with tarfile.open(path) as archive:
        unpack(archive, to)
    return next(to.iterdir())


def outcomes(form: TextForm, commands: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
    """The outcome of the whole text, and of it without each of the commands."""
    yield "", form.without()
    for command in commands:
        yield command, form.without(command)


def as_text_names() -> tuple[str, ...]:
    """The nodes that have a text form: a bug report is a text already."""
    reports = {
        name for name in described() if description(name).get("bundle", {}).get("format") == BUG_REPORT
    }
    return tuple(name for name in names() if name not in reports)


BUG_REPORT = "bug-report"
