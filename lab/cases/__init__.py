"""The named cases, one row each, by subject."""

from __future__ import annotations

from lab.case import Case
from lab.cases import answers, configuration, files, parameters, peermem, signatures, symbols

CASES: tuple[Case, ...] = (
    *answers.CASES,
    *symbols.CASES,
    *files.CASES,
    *parameters.CASES,
    *configuration.CASES,
    *signatures.CASES,
    *peermem.CASES,
)


def of_groups(groups: tuple[str, ...]) -> tuple[Case, ...]:
    """Cases of any of the groups; those that change the guest permanently are last."""
    chosen = [case for case in CASES if set(case.groups) & set(groups)]
    return tuple(sorted(chosen, key=lambda case: case.last))
