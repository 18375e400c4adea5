"""Which lines of a pasted text are from one machine.

Prompts, prefixes of logs and headings name machines. Lines that name none belong to the only machine that
their author names, else to the only machine of the text, unless what they show contradicts it. The name of
an author is never the name of a machine.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.explain.blocks import EVIDENCE
from gdrkit.explain.outputs import MachineOutputs, outputs
from gdrkit.explain.transcript import TextLine

MOST_AUTHORS = 12
"""Authors whose lines are compared at most; in a longer thread each has a machine of their own."""


def joined(lines: tuple[TextLine, ...], home: str) -> tuple[TextLine, ...]:
    """The lines, each with its machine; "" is one that nothing names. `home` is the only machine that the
    text names, if there is only one."""
    unnamed = _by_author(line for line in lines if not line.host)
    known = tuple(line for line in lines if line.host and line.host == home)
    names: dict[str, str] = {}
    for author, own in unnamed.items():
        both = tuple(sorted((*known, *own), key=lambda line: line.number))
        if not author or not known or (len(unnamed) <= MOST_AUTHORS and not _contradict(known, own, both)):
            known, names[author] = both, home
        else:
            names[author] = f"{author}'s machine"
    return tuple(line if line.host else replace(line, host=names[line.author]) for line in lines)


def _by_author(lines: Iterable[TextLine]) -> dict[str, tuple[TextLine, ...]]:
    """The lines of each author, who first wrote one first."""
    found: dict[str, list[TextLine]] = {}
    for line in lines:
        found.setdefault(line.author, []).append(line)
    return {author: tuple(own) for author, own in found.items()}


def _contradict(one: tuple[TextLine, ...], other: tuple[TextLine, ...], both: tuple[TextLine, ...]) -> bool:
    """Whether two sets of lines cannot be from one machine."""
    if not any(line.kind in EVIDENCE for line in one) or not any(line.kind in EVIDENCE for line in other):
        return False
    first, second, together = outputs(one), outputs(other), outputs(both)
    return bool(
        _contradicted(together) - _contradicted(first) - _contradicted(second)
        or first.modules.keys() & _absent_modules(second)
        or second.modules.keys() & _absent_modules(first)
        or any(argv in first.commands and argv not in together.commands for argv in second.commands)
    )


def _contradicted(found: MachineOutputs) -> set[object]:
    tables = (found.files, found.commands, found.modinfo)
    return {key for table in tables for key, answer in table.items() if answer.contradicted}


def _absent_modules(found: MachineOutputs) -> set[str]:
    return {
        path.rpartition("/")[2]
        for path, answer in found.files.items()
        if path.startswith("sys/module/") and answer.missing == "absent"
    }
