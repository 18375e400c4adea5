"""Choose the command that best distinguishes the causes that a text leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import AnswerMeaning, OpenLine, Question, TextMachine
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.acs_ports import REDIRECTS
from gdrkit.explain.outputs.topologies import topology_row
from gdrkit.formats.regex import regex
from gdrkit.rules.deciding_command import ACS, DecidingCommand, fill

PERMANENT_WEIGHT = 100
"""Weight of a command that shows whether the hardware can do it: if not, no other cause matters."""

PARTLY_SHOWN_WEIGHT = 0.5
"""Weight of a command whose output the text shows already, perhaps only in part. Another search in it shows
none of that."""

ONLY_CAUSE_WEIGHT = 1.5
"""Weight of a command that would confirm the only possible cause of a line."""


def question(
    machines: tuple[TextMachine, ...], typed: set[str], weights: Mapping[str, float]
) -> Question | None:
    """The command that best distinguishes the likely causes of all open lines; None if nothing is open.

    Each cause counts by its weight (code: weight), and a command by the causes that it would show: one that
    shows four unlikely ones leaves the likeliest open."""
    scores: dict[tuple[str, str], float] = {}
    for machine in machines:
        if any(rule_of(found.code).permanent for found in machine.established):
            continue  # the hardware cannot do it, whatever the open causes are
        for line in machine.open:
            for code, deciding in _deciding_commands(line):
                if code not in weights:
                    continue  # the text excludes it
                key = fill(deciding.command, line.subject), machine.name
                if key[0] in typed:
                    continue  # the text shows its output
                weight = _weight(code, line, deciding, typed) * weights[code]
                scores[key] = scores.get(key, 0) + weight
    if not scores:
        return None
    # of equal scores that of a machine with a name wins, then the first
    command, name = max(scores, key=lambda key: (scores[key], bool(key[1])))
    machine = next(machine for machine in machines if machine.name == name)
    return _question(command, machine, weights)


def commands_shown(lines: tuple[TextLine, ...]) -> set[str]:
    """The commands whose outputs a text shows: those that were typed, alone or among others for a shell
    elsewhere, and a matrix or bits that need no command to be known."""
    typed = {line.command for line in lines if line.kind == "typed"}
    shown = typed.union(*map(_within, typed))
    if topology_row(lines):
        shown.add("nvidia-smi topo -m")
    if any(line.kind in EVIDENCE and REDIRECTS.match(line.text) for line in lines):
        shown.add(ACS)
    return shown


_ELSEWHERE = regex(r"(?:.{0,400}? -- )?(?:(?:\S*/)?(?:ba)?sh -\w{0,2}c )?(?P<commands>.*)")


def _within(command: str) -> list[str]:
    """The commands that a line runs one after the other, in a pod or a shell that it starts."""
    found = _ELSEWHERE.match(command)
    commands = found["commands"].strip("'\" ") if found is not None else ""
    return [part.strip() for part in _ENDS.split(commands)]


_ENDS = regex(r"&&|\|\||;")


def _deciding_commands(line: OpenLine) -> Iterator[tuple[str, DecidingCommand]]:
    """Each possible cause of a line, with each command that would show it."""
    for code in line.codes:
        for deciding in rule_of(code).reported_by:
            yield code, deciding


def _weight(code: str, line: OpenLine, deciding: DecidingCommand, typed: set[str]) -> float:
    if line.claimed and rule_of(code).permanent and len(line.causes) == 1:
        return PERMANENT_WEIGHT
    if len(line.causes) == 1:
        return ONLY_CAUSE_WEIGHT
    program = deciding.command.removeprefix("sudo ").split()[0]
    whole = (command.removeprefix("sudo ") for command in typed if "grep" not in command)
    shown = any(command.split()[:1] == [program] for command in whole)
    return PARTLY_SHOWN_WEIGHT if shown else 1


def _question(command: str, machine: TextMachine, weights: Mapping[str, float]) -> Question:
    answers: dict[str, list[str]] = {}
    open_codes: list[str] = []
    for line in machine.open:
        answered = [
            (code, deciding)
            for code, deciding in _deciding_commands(line)
            if fill(deciding.command, line.subject) == command and code in weights
        ]
        if answered:
            open_codes += (code for code in line.codes if code in weights)
        for code, deciding in answered:
            shows = fill(deciding.shows, line.subject)
            if code not in answers.setdefault(shows, []):
                answers[shows].append(code)
    shown = {code for codes in answers.values() for code in codes}
    return Question(
        command=command,
        machine=machine.name,
        answers=tuple(AnswerMeaning(shows, tuple(codes)) for shows, codes in answers.items()),
        otherwise=tuple(dict.fromkeys(code for code in open_codes if code not in shown)),
    )
