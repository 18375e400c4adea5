"""All that a log says, counted by who says it, however long it is. PURE.

A log of a thousand ranks has ten million lines of a few thousand shapes. So a line is only cut at its two
fixed marks; each shape goes through the parser of NCCL's lines once, and is counted afterwards. What is kept
grows with processes, devices and kinds of lines, and not with the length of the log.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from gdrkit.evidence import FormatError
from gdrkit.facts.nccl_lines import frame, given, record
from gdrkit.facts.nccl_records import Failure, Leg, Record, Version

MARK, VIA = b" NCCL INFO ", b" via "
MOST_CHANNELS = 64
"""src/include/device.h, MAXCHANNELS. The channels of a shape are the bits of one number."""
_BITS = {b"Channel %02d" % i: 1 << i for i in range(MOST_CHANNELS)}

WANTED = frozenset(
    (
        b"Call", b"Coll", b"Conn", b"DMA-", b"Data", b"Fail", b"GPU ", b"Got ", b"HINT", b"Mism", b"NCCL",
        b"NET/", b"P2P ", b"Plug", b"Ring", b"Succ", b"Usin", b"[Ran", b"comm", b"dlvs", b"mess", b"nccl",
    )
)  # fmt: skip
"""How the words begin that may be of a known form, by their first four bytes."""
MOST_UNITS, MOST_SHAPES, MOST_KINDS = 200_000, 1_000_000, 64
"""Bounds for what is kept of hostile input: processes, shapes of channel lines, and different records of one
kind of one process. The largest jobs known have some 30,000 GPUs."""
CACHED = 100_000
"""Entries of what is remembered to save work, before it is forgotten and begun anew."""
QUOTED = 240

Shapes = dict[bytes, int]
"""Of one unit: what stands behind the last bracket of a channel line, and the channels that had it."""


class Unit(NamedTuple):
    """Who prints: one process, and the device that it has selected."""

    process: str
    device: int | None


class First(NamedTuple):
    """The first line of a shape: its place, and whose end of the channel it tells of."""

    place: int
    rank: int
    gpu: str


class Entry:
    """How often something was said, where first, and in which words."""

    __slots__ = ("count", "place", "words")

    def __init__(self, count: int, place: int, words: str) -> None:
        self.count, self.place, self.words = count, place, words


class Tally:
    """Feed it chunks of whole lines, section by section. A section is a file or a part of one."""

    def __init__(self) -> None:
        self.units: dict[Unit, int] = {}
        self.legs: list[Shapes] = []  # of each unit
        self.firsts: dict[tuple[int, bytes], First] = {}
        self.said: dict[tuple[int, Record], Entry] = {}
        self.lines: dict[int, int] = {}  # lines of each section
        self.damaged, self.first_damaged = 0, -1
        self.forgotten = 0  # records beyond the bounds
        self._heads: dict[bytes, Shapes] = {}
        self._seen: dict[tuple[bytes, bytes], Entry | None] = {}
        self._kinds: dict[tuple[int, type], int] = {}

    def feed(self, chunk: bytes, section: int, *, ends_whole: bool = True) -> None:
        """Count a chunk of lines. `ends_whole`: its last line is complete, with or without a newline."""
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n")
        lines = chunk.split(b"\n")
        last = lines.pop()
        base = (section << 40) + self.lines.get(section, 0) + 1
        self.lines[section] = self.lines.get(section, 0) + len(lines)
        heads, seen, bits = self._heads, self._seen, _BITS
        for number, line in enumerate(lines):
            head, mark, words = line.partition(MARK)
            kind = words[:4]
            if kind == b"Chan":
                left, bracket, tail = words.rpartition(b" [")
                if not bracket:
                    left, bracket, tail = words.partition(VIA)
                shapes = heads.get(head)
                if shapes is not None:
                    channels = shapes.get(tail)
                    if channels is not None and channels & bits.get(left[:10], 0) and b"N" not in left:
                        continue  # said before, and no other line began in the middle
                self._slow(line, base + number)
            elif kind in WANTED:
                if (words[:7] == b"NET/IB:" and b" mtu " in words) or words[:12] == b"Connected to":
                    continue
                entry = seen.get((head, words), _NEW)
                if entry is _NEW:
                    self._remember(head, words, self._slow(line, base + number))
                elif entry is not None:
                    entry.count += 1
            elif b"NCCL" in words if mark else b"NCCL" in line:
                self._slow(line, base + number)
        if last and ends_whole:
            self.lines[section] += 1
            self._slow(last, base + len(lines))
        elif last:
            self._last(last, section)

    def _last(self, line: bytes, section: int) -> None:
        """A last line without an end: what may go on, with /GDRDMA or another digit, says nothing."""
        number = self.lines.get(section, 0) + 1
        self.lines[section] = number
        words = line.partition(MARK)[2]
        whole = line.endswith((b"GDRDMA", b"/Shared", b"(PCI)")) or (
            VIA not in line and b" set " not in words
        )
        if whole or number == 1:
            self._slow(line, (section << 40) + number)
        elif b"NCCL" in line:
            self._damage((section << 40) + number)

    # -- a shape that was not seen before ----------------------------------------------------------------

    def _slow(self, line: bytes, place: int) -> Entry | None:
        """Take one line apart and count it; its entry, where it is one that repeats."""
        text = line.decode("utf-8", "replace")
        who = frame(text)
        if who.cut:
            self._damage(place)
            return None
        found = record(who.message)
        if found is None:
            if who.device is None:
                for variable in given(text):
                    self._say(self._unit(Unit("", None)), variable, place, text)
            elif " via " in who.message and who.message[:7] == "Channel":
                self._damage(place)
            return None
        if isinstance(found, Leg):
            self._leg(line, who.process, who.device, found, place)
            return None
        unit = self._unit(Unit(who.process, who.device if not isinstance(found, Version) else None))
        if isinstance(found, Failure) and found.call == "completion":
            found = replace(found, text="")  # names the peer: as many texts as peers
        return self._say(unit, found, place, who.message)

    def _leg(self, line: bytes, process: str, device: int | None, leg: Leg, place: int) -> None:
        head, _, words = line.partition(MARK)
        own = leg.target if leg.direction == "receive" and leg.target is not None else leg.source
        unit = self._unit(Unit(process, device) if process else Unit(f"rank {own}", None))
        shapes = self.legs[unit]
        if process:
            if len(self._heads) >= CACHED:
                self._heads.clear()
            self._heads[head] = shapes
        tail = words.rpartition(b" [")[2] if leg.direction else words.partition(VIA)[2]
        if tail not in shapes:
            if len(self.firsts) >= MOST_SHAPES:
                raise FormatError(f"more than {MOST_SHAPES} kinds of channels")
            self.firsts[unit, tail] = First(place, own, leg.own_gpu)
        shapes[tail] = shapes.get(tail, 0) | (1 << leg.channel % MOST_CHANNELS)

    def _say(self, unit: int, found: Record, place: int, words: str) -> Entry | None:
        entry = self.said.get((unit, found))
        if entry is not None:
            entry.count += 1
            return entry
        kind = unit, type(found)
        self._kinds[kind] = count = self._kinds.get(kind, 0) + 1
        if count > MOST_KINDS:
            self.forgotten += 1
            return None
        self.said[unit, found] = entry = Entry(1, place, words[:QUOTED])
        return entry

    def _remember(self, head: bytes, words: bytes, entry: Entry | None) -> None:
        if len(self._seen) >= CACHED:
            self._seen.clear()
        self._seen[head, words] = entry

    def _unit(self, unit: Unit) -> int:
        number = self.units.get(unit)
        if number is None:
            if len(self.units) >= MOST_UNITS:
                raise FormatError(f"more than {MOST_UNITS} processes")
            number = self.units[unit] = len(self.units)
            self.legs.append({})
        return number

    def _damage(self, place: int) -> None:
        self.damaged += 1
        if self.first_damaged < 0 or place < self.first_damaged:
            self.first_damaged = place

    # -- two parts of one job ----------------------------------------------------------------------------

    def add(self, other: Tally) -> None:
        """Take in what another tally counted of other sections. The order does not matter."""
        names = {number: self._unit(unit) for unit, number in other.units.items()}
        for theirs, shapes in enumerate(other.legs):
            mine = self.legs[names[theirs]]
            for tail, channels in shapes.items():
                mine[tail] = mine.get(tail, 0) | channels
        for (theirs, tail), first in other.firsts.items():
            key = names[theirs], tail
            self.firsts[key] = min(first, self.firsts.get(key, first))
        for (unit, found), entry in other.said.items():
            here = self.said.setdefault((names[unit], found), Entry(0, entry.place, entry.words))
            here.count += entry.count
            if entry.place < here.place:
                here.place, here.words = entry.place, entry.words
        for section, lines in other.lines.items():
            self.lines[section] = self.lines.get(section, 0) + lines
        self.damaged += other.damaged
        self.forgotten += other.forgotten
        places = [place for place in (self.first_damaged, other.first_damaged) if place >= 0]
        self.first_damaged = min(places, default=-1)


_NEW = Entry(0, 0, "")
"""Stands for words that were not seen before."""
