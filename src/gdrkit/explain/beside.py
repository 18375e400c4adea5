"""What fails beside the first cause: the failing lines that it does not explain."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.chains import fails_by, refuses
from gdrkit.explain.explanation import NO_ERROR, OpenLine, OtherFailure, QuotedLine, RankedCause, TextMachine
from gdrkit.explain.first_steps import modules_of
from gdrkit.explain.ranking import Candidate
from gdrkit.report.pages import code_page

MAX_CAUSES = 5
"""Causes that are listed for a line at most."""


def other_failures(
    found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]
) -> Iterator[OtherFailure]:
    """The failing lines that the first cause does not explain, with the causes that the text leaves them."""
    weights = {one.code: one.weight for one in found}
    for machine in machines:
        for line in machine.open:
            codes = sorted(set(line.codes) & set(weights), key=lambda code: -weights[code])
            if codes and line.fails and not _explains(found[0], line, machines):
                causes = tuple(RankedCause(code, code_page(code)[0], line.line) for code in codes)
                yield OtherFailure(QuotedLine(line.line, line.text), causes[:MAX_CAUSES])


def _explains(first: Candidate, line: OpenLine, machines: tuple[TextMachine, ...]) -> bool:
    """Whether a cause explains a line. One that only says that a module did not load has any cause of it."""
    modules = modules_of(first, machines) if line.note == NO_ERROR else ()
    return fails_by(first.code, line.codes, line.subject) or any(
        refuses(first.code, module, line.subject) for module in modules
    )


def shared(found: tuple[Candidate, ...], machines: tuple[TextMachine, ...]) -> set[str]:
    """The causes of the lines that the first one explains: alternatives to it."""
    lines = (line for machine in machines for line in machine.open if _explains(found[0], line, machines))
    return {code for line in lines for code in line.codes}
