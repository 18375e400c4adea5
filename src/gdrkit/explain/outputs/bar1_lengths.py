"""Registrations that are longer than what the text shows to be free of BAR1.

The rule judges BAR1 as it is, and 250 free MiB are well. A registration needs its length, and the part that
the driver keeps: src/nvidia/src/kernel/rmapi/p2p.c of open-gpu-kernel-modules.
"""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit import catalogue
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex
from gdrkit.messages import registration
from gdrkit.rules.bar1 import MIB, RESERVED_BYTES

CODE = "bar1-exhausted"
_TITLE = "BAR1 Memory Usage"
_ROW = regex(r"\s*(?P<name>Total|Used|Free)\s+: (?P<mib>\d{1,9}) MiB\s*")
_LENGTH = regex(r"\b(?:length|len|size)[=: ] ?(?P<bytes>\d{1,15})\b")
_ASKED = regex(r"\b(?:ib|raw_ethernet)_\w{1,20}_(?:bw|lat)\b.*--use_cuda\b")
_SIZE = regex(r" (?:-s|--size)[= ]?(?P<bytes>\d{1,15})(?!\S)")
"""The size of a message in a command of perftest, whose buffer has that length at least."""
SECTION_LINES = 3
"""How many lines below its title the free part is: total, used, free."""


def bar1_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The first failed registration that no BAR1 of the text had room for."""
    free = max(_free_mib(lines), default=None)
    if free is None:
        return
    for position, line in enumerate(lines):
        length = _failed_length(line)
        if length and length + RESERVED_BYTES > free * MIB:
            size = f"{length // MIB} MiB" if length >= MIB else f"{length} bytes"
            note = (
                f"it registers {size}, and {free} MiB of BAR1 are free, of which the driver keeps"
                f" {RESERVED_BYTES // MIB}"
            )
            yield Reading(line, position, (CODE,), note)
            return


def _free_mib(lines: tuple[TextLine, ...]) -> Iterator[int]:
    """How much of the BAR1 of each GPU that is shown is free: what is not used, where no row prints it."""
    titles = [position for position, line in enumerate(lines) if line.text.strip() == _TITLE]
    for position in titles:
        below = lines[position + 1 : position + 1 + SECTION_LINES]
        rows = {found["name"]: int(found["mib"]) for line in below if (found := _ROW.fullmatch(line.text))}
        if "Free" in rows:
            yield rows["Free"]
        elif rows.keys() >= {"Total", "Used"}:
            yield rows["Total"] - rows["Used"]


def _failed_length(line: TextLine) -> int:
    """The bytes that a program could not register where a full BAR1 may be why; 0 for any other line."""
    if line.kind not in ("machine", "shown"):
        return 0
    found = _LENGTH.search(line.text)
    if found is None and _ASKED.search(line.command):
        found = _SIZE.search(line.command)
    if found is None:
        return 0
    known = catalogue.match(line.text)
    causes = known.causes if known is not None else registration.causes(line.text)
    return int(found["bytes"]) if CODE in causes else 0
