"""The one question whose answer decides most between the causes that a text leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import AnswerMeaning, OpenLine, Question, TextMachine
from gdrkit.rules import BY_CODE
from gdrkit.rules.deciding_command import DecidingCommand, fill

PERMANENT = 100
"""Weight of a question whether the hardware can do it at all: if it cannot, no other answer matters."""

HALF = 0.5
"""Weight of a command of whose output the text shows a part: the rest of it may be no news."""


def question(machines: tuple[TextMachine, ...], typed: set[str]) -> Question | None:
    """The command that tells most causes apart, over all open lines; None where nothing is open."""
    scores: dict[tuple[str, str], float] = {}
    for machine in machines:
        if any(BY_CODE[found.code].permanent for found in machine.established):
            continue  # whatever else is open there, no answer to it changes what the machine can do
        for line in machine.open:
            for code, tell in _tells(line):
                key = fill(tell.command, line.subject), machine.name
                scores[key] = scores.get(key, 0) + _weight(code, line, tell, typed)
    if not scores:
        return None
    command, name = max(scores, key=lambda key: scores[key])  # of equals the first, which is the best tell's
    machine = next(machine for machine in machines if machine.name == name)
    return _asked(command, machine)


def _tells(line: OpenLine) -> Iterator[tuple[str, DecidingCommand]]:
    """Each command that would show a cause of this line, once."""
    for code in line.codes:
        for tell in BY_CODE[code].reported_by:
            yield code, tell


def _weight(code: str, line: OpenLine, tell: DecidingCommand, typed: set[str]) -> float:
    if line.claimed and BY_CODE[code].permanent and len(line.causes) == 1:
        return PERMANENT
    if len(line.causes) == 1:
        return 1 + HALF  # a suspect alone
    program = tell.command.removeprefix("sudo ").split()[0]
    shown = any(command.removeprefix("sudo ").split()[:1] == [program] for command in typed if command)
    return HALF if shown else 1


def _asked(command: str, machine: TextMachine) -> Question:
    answers: dict[str, list[str]] = {}
    open_codes: list[str] = []
    for line in machine.open:
        hits = [(c, tell) for c, tell in _tells(line) if fill(tell.command, line.subject) == command]
        if hits:
            open_codes += line.codes
        for code, tell in hits:
            shows = fill(tell.shows, line.subject)
            if code not in answers.setdefault(shows, []):
                answers[shows].append(code)
    told = {code for codes in answers.values() for code in codes}
    return Question(
        command=command,
        machine=machine.name,
        answers=tuple(AnswerMeaning(shows, tuple(codes)) for shows, codes in answers.items()),
        otherwise=tuple(dict.fromkeys(code for code in open_codes if code not in told)),
    )
