"""What changed between two looks at the processes of a node. A process is its pid and its start."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct

from gdrkit.formats.plural import plural
from gdrkit.jobs.running.document import PsDocument, PsProcess
from gdrkit.jobs.running.text import (
    MOVES,
    ORDER,
    TABLE,
    WORDS,
    asks,
    communicators,
    head,
    rates,
    row,
    shown,
    unseen,
)
from gdrkit.report.terminal import Row

NEW, ENDED, CHANGED, SAME = "+", "-", "!", " "
MARKED = {NEW: "bold", CHANGED: "bold reverse"}
RATES_SHOWN = LINES_SHOWN = 16
CHANGES_SHOWN = 6
LEAST_SHOWN = 4
"""Processes on a screen that is too low for what is below them."""


class Look(Struct, frozen=True):
    """A process at the second look, or at the first if it has ended; its mark, and what changed."""

    mark: str
    process: PsProcess
    what: str = ""


def looks(before: PsDocument | None, after: PsDocument) -> tuple[Look, ...]:
    """The processes of the second look with their marks, then those that have ended."""
    old = {_key(one): one for one in before.processes} if before else {}
    now = {_key(one) for one in after.processes}
    return (
        *(_look(old.get(_key(one)), one, before is None) for one in after.processes),
        *(Look(ENDED, one, "ended") for key, one in old.items() if key not in now),
    )


def lines(found: Iterable[Look], clock: str) -> Iterator[str]:
    """A line for each process that is new, changed or ended: for a pipe or a log."""
    for look in found:
        if look.mark != SAME:
            what = f"  ({look.what})" if look.what else ""
            yield f"{clock} {look.mark} {row(look.process)}{what}"


def changes(found: Iterable[Look], clock: str) -> Iterator[str]:
    """A short line for each process that is new, changed or ended, for the list below a screen."""
    for look in found:
        if look.mark != SAME:
            one = look.process
            moves = "" if one.verdict.moving is None else f", {MOVES[one.verdict.moving]}"
            yield f"{clock} {look.mark} {one.pid} {one.name}: {WORDS[one.verdict.path]}{moves} ({look.what})"


def screen(
    document: PsDocument, found: Iterable[Look], *, clock: str, colour: bool, width: int,
    registered: Iterable[str] = (), height: int | None = None, changed: Iterable[str] = (),
) -> str:  # fmt: skip
    """The processes for a terminal, with what changed marked, the last changes, and the rates of ports and
    GPUs. Where it is too low for all of them, what changed comes first, then what to act on."""
    last = [*islice(changed, CHANGES_SHOWN)]
    below = [
        *((0, "head", "Changes, the last first") for _ in last[:1]),
        *((2, "", line) for line in last),
        *islice(rates(document), RATES_SHOWN + 1),
        *((2, "", line) for line in islice(registered, LINES_SHOWN)),
        *((2, "note", line) for line in (*communicators(document), *asks(document), *unseen(document))),
    ]
    chosen = [*found]
    room = len(chosen) if height is None else max(LEAST_SHOWN, height - len(below) - 4)
    left = len(chosen) - room
    if left > 0:
        chosen.sort(key=lambda look: (look.mark == SAME, ORDER.index(look.process.verdict.path)))

    def rows() -> Iterator[Row]:
        yield 0, "dim", clock
        is_narrow = width - 2 < TABLE
        yield 2, "head", head(is_narrow=is_narrow)
        for look in chosen[:room]:
            style = MARKED.get(look.mark, "dim" if look.mark == ENDED else look.process.verdict.path)
            yield 2, style, row(look.process, is_narrow=is_narrow), look.mark
        if left > 0:
            yield 2, "note", f"and {left} more"
        yield from below

    return shown(rows(), colour=colour, width=width)


def remarks(before: PsDocument | None, after: PsDocument) -> Iterator[str]:
    """What could not be seen at the second look and what would show more, unless it was so at the first;
    then what of the first holds no longer. How many processes or regions it is may differ."""
    old, new = ({_uncounted(line): line for line in _remarks(one)} for one in (before, after))
    yield from (line for key, line in new.items() if key not in old)
    yield from (f"no longer: {line}" for key, line in old.items() if key not in new)


def _remarks(document: PsDocument | None) -> Iterator[str]:
    if document is not None:
        yield from asks(document)
        yield from unseen(document)


def _uncounted(line: str) -> str:
    """A line without the count and the size that it begins with: processes come and go all the time."""
    return re.sub(r"^(note: )?\d+ \w+(, [^,]+,)?", r"\1", line)


def _key(process: PsProcess) -> tuple[int, int]:
    return process.pid, process.started


def _look(old: PsProcess | None, new: PsProcess, first: bool) -> Look:
    if old is None:
        return Look(NEW, new, "" if first else "new")
    was, now = old.verdict, new.verdict
    changed = []
    if (was.path, was.registered_by) != (now.path, now.registered_by):
        changed.append(f"was {was.path}")
    if was.moving != now.moving:
        changed.append(f"was {MOVES[was.moving]}")
    if (regions := _regions(old)) != _regions(new):
        changed.append(f"had {plural(regions, 'region')}")
    return Look(CHANGED if changed else SAME, new, ", ".join(changed))


def _regions(process: PsProcess) -> int:
    return sum(one.regions for one in process.devices)
