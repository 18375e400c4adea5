"""Xid lines of a text, with or without the time stamps by which a kernel log is known."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.facts.driver_log import after_driver_load
from gdrkit.facts.gpu_recovery import by_slot
from gdrkit.facts.kernel_log import LINE_CHARACTERS, KernelLogLine
from gdrkit.facts.xids import needed
from gdrkit.formats.regex import regex

_MESSAGE = regex(r"(?<!\S)(?:NVRM: |pci [0-9a-f]{4}:)\S.*")
"""A message of the driver, or of a function that a scan of the bus finds, without what precedes it."""


def xid_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The Xids after which a GPU needs a reset or the machine a restart, one line for each GPU. Whether one
    was made since, no Xid shows."""
    printed = tuple(
        KernelLogLine(None, found[0], position)
        for position, line in enumerate(lines)
        if line.kind in EVIDENCE and (found := _MESSAGE.search(line.text, 0, LINE_CHARACTERS))
    )
    for some in by_slot(after_driver_load(printed)).values():
        if need_of := needed(some):
            need, xid = need_of
            line = lines[xid.line]
            note = f"{need.seen}: the GPU needs {need.recovery}"
            yield Reading(line, xid.line, ("gpu-needs-reset",), note)
