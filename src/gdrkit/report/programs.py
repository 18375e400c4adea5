"""Which programs a report shows, and the words about each."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gdrkit.formats.gpu_slot import with_slots
from gdrkit.programs.names import ALWAYS
from gdrkit.report.document import ConsumerSection, InitiatedSection, Report
from gdrkit.report.path_words import PATH_NAMES, gain
from gdrkit.verdict.path_state import GOOD, State


def shown_programs(report: Report, *, every: bool = False) -> dict[str, ConsumerSection]:
    """The programs that any node may run, those that this one has or runs, and the one asked about."""
    return {
        name: program
        for name, program in report.consumers.items()
        if every or name in (*ALWAYS, report.verdict.consumer) or program.installed or program.running
    }


def about_shown(report: Report, *, every: bool = False) -> Report:
    """The report without findings that concern only programs that are not shown."""
    shown = shown_programs(report, every=every).keys()
    matter = (f for f in report.findings if not f.programs or not shown.isdisjoint(f.programs))
    return replace(report, findings=tuple(matter))


def with_gpu_slots(report: Report) -> Report:
    """The report for readers: its findings name each GPU by its slot. What an unknown finding lacks, and its
    command, stay as they are."""
    addresses = [gpu.gpu for gpu in report.gpus]
    named = []
    for finding in report.findings:
        seen = finding.seen if finding.status == "unknown" else with_slots(finding.seen, addresses)
        named.append(replace(finding, subject=with_slots(finding.subject, addresses), seen=seen))
    return replace(report, findings=tuple(named))


def program_lines(report: Report, *, every: bool = False) -> Iterator[tuple[State, str, str]]:
    """The state of programs, their names and the state in words; those with the same words share a line."""
    alike: dict[tuple[State, str], list[str]] = {}
    for name, program in shown_programs(report, every=every).items():
        alike.setdefault((program.state, _words(program)), []).append(name)
    for (state, words), names in alike.items():
        yield state, ", ".join(names), f"{state}{words}"


def _words(program: ConsumerSection) -> str:
    """What follows the state of a program: its direct path, or what it does without one, in its own words:
    NCCL copies, a program of its own on libibverbs gets an error."""
    if program.state in GOOD:
        note = gain(program.path).note or (initiated_words(program.initiated) if program.initiated else "")
        return f", direct over {PATH_NAMES.get(program.path, program.path)}" + (f"; {note}" if note else "")
    if program.best_fallback == "host-mapped":
        return "; use host-mapped: pinned host memory shared by NIC and GPU, as good as direct here"
    if program.state is State.UNKNOWN:
        return ""
    if program.best_fallback == "socket":
        return "; falls back to socket: ordinary TCP"
    without = program.without or ("copies through host memory" if program.best_fallback else "")
    return f"; it {without}" if without else ""


def initiated_words(section: InitiatedSection) -> str:
    """Who starts the transfers of a program's GPU kernels, and why it is not the GPU."""
    why = f" [{', '.join(section.codes)}]" if section.codes else ""
    match section.by:
        case "gpu":
            return f"{section.name}: the GPU itself rings the NIC's doorbell"
        case "cpu":
            return f"{section.name}: the CPU rings the NIC's doorbell for the GPU, data stays direct{why}"
        case "none":
            return f"no {section.name}{why}"
        case "unknown":
            return f"{section.name}: not known{why}"
