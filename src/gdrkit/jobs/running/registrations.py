"""Registrations as they happen, as `gdrkit.agent.probe.trace_probe` prints them, summed by process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.formats.plural import plural
from gdrkit.jobs.running.decisions import amount
from gdrkit.jobs.running.record import Number

WORDS = {
    "dmabuf": "of dma-bufs", "peermem": "pinned by nvidia-peermem",
    "address": "of addresses (host memory, or peermem)", "deregistered": "ended",
}  # fmt: skip


class TraceRow(Struct, frozen=True):
    """A line of the probe: what it follows, what a process did, what was lost, or why it follows nothing."""

    probes: list[str] | None = None
    pid: Number | None = None
    kind: str = ""
    count: Number = 0
    bytes: Number = 0
    lost: Number = 0
    error: str = ""
    removed: str = ""  # the group of probes that an earlier process left behind


class Registrations:
    """The sums since the start."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self.lost = 0
        self.error = ""
        self.removed: list[str] = []
        self.probes: tuple[str, ...] = ()

    def add(self, line: bytes) -> None:
        """Add a line of the probe. Raises FormatError."""
        row = json_text.decode(line, TraceRow)
        if row.probes is not None:
            self.probes = tuple(row.probes)
        self.error = row.error or self.error
        self.removed += [row.removed] if row.removed else []
        self.lost += row.lost
        if row.pid is not None:
            if row.kind not in WORDS:
                raise FormatError(f"unknown kind of registration: {row.kind[:40]!r}")
            found = self.counts[row.pid, row.kind]
            found[0] += row.count
            found[1] += row.bytes

    def lines(self) -> Iterator[str]:
        """What was registered since the start. That nothing was registered is not that nothing is."""
        if self.error:
            yield f"registrations are not followed: {self.error}"
        for group in self.removed:
            yield f"removed the probes of an earlier gdr watch: {group}"
        for (pid, kind), (count, size) in sorted(self.counts.items()):
            length = f", {amount(size)}" if kind != "deregistered" else ""
            yield f"process {pid}: {plural(count, 'region')} {WORDS[kind]}{length}"
        if self.lost:
            yield f"{plural(self.lost, 'registration')} lost: they came too fast"
