"""Whether logs have reports of NCCL's diagnostics of several jobs, which cannot be judged as one."""

from __future__ import annotations

from collections.abc import Callable

from gdrkit.jobs.job import LogPosition
from gdrkit.jobs.line_counts import Tally
from gdrkit.programs.nccl.diagnostic_records import DiagnosticLine
from gdrkit.programs.nccl.log_records import Communicator


def separate_reports(tally: Tally, where: Callable[[int], LogPosition]) -> tuple[str, ...]:
    """A file of each job that has a report, by its name: those of one job share a file, a process or a
    communicator."""
    roots: dict[str, str] = {}

    def root(name: str) -> str:
        while roots.setdefault(name, name) != name:
            name = roots[name]
        return name

    units = list(tally.units)
    with_report: dict[str, None] = {}
    for (number, found), entry in tally.entries.items():
        if not isinstance(found, DiagnosticLine | Communicator):
            continue
        file = where(entry.position).file
        of_file = f"file {file}"
        identifier = found.communicator if isinstance(found, DiagnosticLine) else found.identifier
        for name, known in (("process", units[number].process), ("communicator", identifier)):
            if known:
                roots[root(f"{name} {known}")] = root(of_file)
        if isinstance(found, DiagnosticLine):
            with_report[file] = None
    firsts: dict[str, str] = {}
    for file in with_report:
        firsts.setdefault(root(f"file {file}"), file)
    return tuple(firsts.values())
