"""The labels that launchers and loggers put before every line of an output, taken off as a whole.

A line of a listing, such as `State: Down` of ibstat, says nothing by itself, so here not a line decides, as
in wrappers.py, but a run of lines: they have the same few labels, and more of them are an output without.
The lines of one machine come together, since those of several arrive mixed.

Sources: pdsh(1); clush(1); srun(1), --label; mpirun(1) of Open MPI 4 and prterun(1), --tag-output;
`kubectl logs --help`, --prefix; journalctl(1), --output=short and short-iso.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gdrkit.explain.lines.attribution import DRIVER_PODS
from gdrkit.explain.lines.fan_out import PART, PROGRAMS, names
from gdrkit.explain.lines.recognition import is_output
from gdrkit.explain.lines.wrappers import DEVICES
from gdrkit.formats.month import MONTH
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.log_lines import is_framed

_FORMS = (
    regex(r"\[\d{1,7},(?P<rank>\d{1,7})\]<\w{1,20}>:"),
    regex(r"\[[\w.-]{1,80}@\d{1,7},(?P<rank>\d{1,7})\]<\w{1,20}>:(?: |$)"),
    regex(r"\[pod/(?P<pod>[\w.-]{1,120})/[\w.-]{1,80}\](?: |$)"),
    # the program is a part of the label; the kernel's lines keep their time
    regex(
        rf"(?:{MONTH} [ \d]\d [\d:]{{8}}(?:\.\d{{1,9}})?|\d{{4}}-\d\d-\d\dT[\d:.,+Z-]{{8,24}}) "
        r"(?P<host>[\w.-]{1,80}) (?P<program>(?!kernel:)[\w.@()/-]{1,80})(?:\[\d{1,8}\])?:(?: |$)"
    ),
    regex(r" {0,6}(?P<task>\d{1,7}):(?: |$)"),
    regex(rf"(?P<host>(?!{DEVICES})(?=\w){PART}):(?: |$)"),
)
LINES_PER_LABEL = 2
"""Lines that a label has at least, on average: of fields, such as modinfo's, each has its own name."""
LINES_TRIED = 40
"""Lines of a run that decide: a listing shows its form in its first ones."""
RUNS_TRIED = 50
"""Runs of a text that are looked at: to ask whether a line is an output takes up to 0.1 ms."""


class Label(Struct, frozen=True):
    """A label, and what it says."""

    form: int
    machine: str  # "" if it names none
    program: str
    width: int


def without_labels(raw: list[str]) -> tuple[list[str], Mapping[int, str]]:
    """The lines without labels, and the machine of each line that had one: "" where no label tells it."""
    labels = [_label(line) for line in raw]
    known = {key for run in itertools.islice(_runs(raw, labels), RUNS_TRIED) for key in _keys(run)}
    taken = {
        index: label
        for index, label in enumerate(labels)
        if label is not None and (label.form, label.machine, label.program) in known
    }
    if not taken:
        return raw, {}
    of_job = any(is_framed(raw[index]) for index in taken)  # whose lines name the host, which has ranks
    several = {label.machine for label in taken.values()}
    machines = {index: "" for index, line in enumerate(raw) if _OF_LAUNCHER.match(line)}
    machines |= {
        index: "" if label.machine.startswith(NUMBERED) and (of_job or len(several) == 1) else label.machine
        for index, label in taken.items()
    }
    return [line[taken[at].width :] if at in taken else line for at, line in enumerate(raw)], machines


def together(indices: Sequence[int], machines: Mapping[int, str]) -> Iterator[int]:
    """The lines in their order, but those with labels that follow one another by machine."""
    first: dict[str, int] = {}
    for _, run in itertools.groupby(indices, machines.__contains__):
        yield from sorted(run, key=lambda at: first.setdefault(machines[at], at) if at in machines else at)


_OF_LAUNCHER = regex(r"(?:pdsh@[\w.-]{1,80}|clush|srun|slurmstepd|mpirun|prterun): ")
"""What launchers print themselves, between the lines of machines."""
NUMBERED = ("rank ", "task ")


def _label(line: str) -> Label | None:
    for form, pattern in enumerate(_FORMS):
        if (found := pattern.match(line)) is not None:
            kind, name = next((one for one in found.groupdict().items() if one[1]), ("", ""))
            if kind == "host" and name in PROGRAMS:
                return None
            machine = {"host": names(name), "pod": _of_pod(name)}.get(kind, f"{kind} {name}")
            return Label(form, machine, found.groupdict().get("program") or "", found.end())
    return None


def _of_pod(name: str) -> str:
    return "" if name.startswith(DRIVER_PODS) else name


def _runs(raw: Sequence[str], labels: Sequence[Label | None]) -> Iterator[list[tuple[Label, str]]]:
    """Lines that follow one another with labels of one form and program, blank ones apart."""
    run: list[tuple[Label, str]] = []
    for line, label in zip(raw, labels, strict=True):
        if label is not None and run and (label.form, label.program) == (run[0][0].form, run[0][0].program):
            run.append((label, line))
        elif label is not None or line.strip():
            if len(run) >= LINES_PER_LABEL:
                yield run
            run = [(label, line)] if label is not None else []
    if len(run) >= LINES_PER_LABEL:
        yield run


def _keys(run: list[tuple[Label, str]]) -> set[tuple[int, str, str]]:
    """The labels of a run, if its lines are an output without them. One in the last form may be a part of
    the line, such as the name of a module: then more of them have to be one than with it."""
    found = {(label.form, label.machine, label.program) for label, _ in run}
    if len(run) < LINES_PER_LABEL * len(found):
        return set()
    tried = run[:LINES_TRIED]
    inside = sum(is_output(line[label.width :]) for label, line in tried)
    whole = sum(is_output(line) for _, line in tried) if run[0][0].form == len(_FORMS) - 1 else 0
    return found if inside > whole else set()
