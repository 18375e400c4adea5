"""What the output of `rdma_topo check` in a text decides."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.rdma_topo_check import faults, read_checks


def rdma_topo_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The checks that failed, each with its cause."""
    printed = {line.number: position for position, line in enumerate(lines) if line.kind in EVIDENCE}
    checks = read_checks((number, lines[position].text) for number, position in printed.items())
    for fault in faults(checks):
        if fault.codes:
            position = printed[fault.number]
            yield Reading(lines[position], position, fault.codes, "", decides=len(fault.codes) == 1)
