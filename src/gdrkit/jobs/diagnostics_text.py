"""The section of a page that shows NCCL's own diagnostics."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.formats.plural import plural
from gdrkit.jobs.job import DiagnosticStatement, JobDiagnostics
from gdrkit.programs.nccl.diagnostic_statements import Effect
from gdrkit.report.terminal import Row

WORDS = {
    Effect.CAUSE: ("failed", "cause"),
    Effect.POSSIBLE: ("warning", "possible"),
    Effect.FAULT: ("warning", "wrong"),
    Effect.OPEN: ("unknown", "open"),
    Effect.EXCLUDED: ("note", "excluded"),
    Effect.NOTE: ("note", "seen"),
}
"""The style and the first word of a statement."""


def diagnostics_rows(found: JobDiagnostics) -> Iterator[Row]:
    """The statements of the reports, the worst first."""
    files = {one.line.file for one in found.statements}
    where = f", lines of {files.pop()}" if len(files) == 1 else ""
    yield 0, "head", f"NCCL's diagnostics ({', '.join(_about(found))}){where}"
    for one in found.statements:
        if one.effect is not Effect.CAUSE:  # a finding of its own
            yield from _statement(one, in_one_file=bool(where))
    yield 2, "unknown", f"open  GPUDirect RDMA: {found.direct_path}"
    yield 0, "", ""


def _about(found: JobDiagnostics) -> Iterator[str]:
    if found.active:
        yield "transfers"
    if found.passive:
        yield "comparison of ranks"
    if found.ranks:
        yield plural(found.ranks, "rank")
    elif found.processes:
        yield plural(found.processes, "process")
    if found.host_count > 1:  # the one that prints the report may not be the only one
        yield plural(found.host_count, "host")
    if found.gpus:
        yield f"{found.gpus} each"


def _statement(one: DiagnosticStatement, *, in_one_file: bool) -> Iterator[Row]:
    style, word = WORDS[one.effect]
    between = ", " if one.effect is Effect.EXCLUDED else " or "
    codes = f"{between.join(one.codes)}: " if one.codes else ""
    yield 2, style, f"{word}  {codes}{one.text}"
    if one.todo:
        yield 6, "", f"next: {one.todo}"
    yield 6, "quote", f"line {one.line.line}" if in_one_file else str(one.line)
