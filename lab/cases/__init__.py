"""The named cases, one row each, by subject."""

from __future__ import annotations

from lab.case import Case
from lab.cases import (
    aliases,
    answers,
    arguments,
    clients,
    complaints,
    configuration,
    copies,
    files,
    indexes,
    links,
    nested,
    packings,
    parameters,
    peermem,
    running,
    signatures,
    symbols,
)
from lab.kernels import Flavour

_OF_VERSIONS = ("crc:", "no-crc:", "no-versions")  # of lab.variants, _tamper()

CASES: tuple[Case, ...] = (
    *answers.CASES,
    *symbols.CASES,
    *files.CASES,
    *parameters.CASES,
    *configuration.CASES,
    *signatures.CASES,
    *peermem.CASES,
    *running.CASES,
    *indexes.CASES,
    *complaints.CASES,
    *nested.CASES,
    *aliases.CASES,
    *arguments.CASES,
    *packings.CASES,
    *links.CASES,
    *copies.CASES,
    *clients.CASES,
)


def of_groups(groups: tuple[str, ...], flavour: Flavour) -> tuple[Case, ...]:
    """Cases of any of the groups that this kernel can have; those that change the guest permanently are
    last.
    """
    chosen = [case for case in CASES if set(case.groups) & set(groups) and possible(case, flavour)]
    return tuple(sorted(chosen, key=lambda case: case.last))


def possible(case: Case, flavour: Flavour) -> bool:
    """Whether a case can be made for a kernel: without symbol versions there is no CRC to change, and
    without mm_kobj there is no folder of clients."""
    tampered = [word for module in case.modules for word in module.variant.tamper]
    lists = any(module.variant.source == "ofed-listing" for module in case.modules)
    if lists and not flavour.exports_mm_kobj:
        return False
    return flavour.symbol_versions or not any(word.startswith(_OF_VERSIONS) for word in tampered)
