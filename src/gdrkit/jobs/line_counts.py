"""The records of a log of any length, counted by process and device.

A log of a thousand ranks has ten million lines of about ten thousand shapes; the shape of a channel line is
the line without the two ranks that it connects. Each shape goes through the parser of NCCL's lines once; a
line whose shape was seen is skipped without running any Python for it. Memory grows with processes, devices
and kinds of lines, not with the length of the log."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from msgspec.structs import replace

from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.jobs.failure_tables import FailureTables
from gdrkit.jobs.gpu_names import named_gpu
from gdrkit.jobs.runtime_prefixes import without_repeats
from gdrkit.jobs.ucx_tables import TableLines
from gdrkit.jobs.wanted_lines import MARK, candidates, positions
from gdrkit.jobs.written import between_lines
from gdrkit.messages.process_ends import own_end
from gdrkit.messages.strerror import in_english
from gdrkit.messages.torch_watchdog import Operation, Progress, watchdog_record
from gdrkit.programs.nccl.diagnostic_records import DiagnosticLine
from gdrkit.programs.nccl.log_lines import frame, given, is_failed_call, record
from gdrkit.programs.nccl.log_records import (
    OWN_END,
    REGISTRATION,
    AsyncEvent,
    CallFailed,
    Communicator,
    Failure,
    Frame,
    Leg,
    NcclRecord,
    Plugin,
    Version,
    Warned,
)

WARNS, VIA = b" NCCL WARN ", b" via "
MOST_CHANNELS = 64
"""src/include/device.h, MAXCHANNELS. The channels of a shape are bits of one number."""

MOST_UNITS, MOST_SHAPES, MOST_KINDS = 200_000, 1_000_000, 64
"""Bounds against hostile input: processes, shapes of channel lines, and different records of one kind of one
process. The largest known jobs have about 30,000 GPUs."""
MOST_CHECKS = 2048
"""The same of lines of a report of diagnostics: one process prints what all ranks have, one line a value."""
CACHED = 400_000
"""Shapes that are cached; beyond that the cache is cleared."""
QUOTED = 240

Shapes = dict[bytes, int]
"""Of one unit: the text after the last bracket of a channel line, and the channels that had it."""


class LogUnit(NamedTuple):
    """The origin of a line: one process, and the device that it has selected."""

    process: str
    device: int | None


class FirstSeen(NamedTuple):
    """The first line of a shape: its position, the rank and GPU whose end of the channel it shows, and the
    other end."""

    position: int
    rank: int
    gpu: str
    channel: int
    peer: int | None
    peer_gpu: str


class TallyEntry:
    """The first line of a record, its position and words. Only warnings are counted, since other lines are
    skipped once their shape was seen; their count is 0."""

    __slots__ = ("count", "position", "words")

    def __init__(self, count: int, position: int, words: str) -> None:
        self.count, self.position, self.words = count, position, words


_CHANNEL = regex(rb"Channel \d\d(?:/\d+)? {1,2}(?:\[(?:send|receive)\] )?via [^\[:]*$")
"""A channel line without its ranks, and without parts of another line."""
_ANY_CHANNEL = regex(r"(?:Channel|Ring|CollNet|Coll) \d\d(?:/\d+)? : (?:\d+\[\w+\] -> |.{0,60} via )")
"""The beginning of a line about one channel, whole or cut; lines about a whole ring are others."""


class Tally:
    """A tally of log lines, fed with chunks of whole lines, section by section.

    A section is a file or a part of one."""

    def __init__(self) -> None:
        self.units: dict[LogUnit, int] = {}
        self.legs: list[Shapes] = []  # of each unit
        self.firsts: dict[tuple[int, bytes], FirstSeen] = {}
        self.entries: dict[tuple[int, NcclRecord], TallyEntry] = {}
        self.lines: dict[int, int] = {}  # lines of each section
        self.damaged, self.first_damaged = 0, -1
        self.forgotten = 0  # records beyond the bounds
        self.hidden = 0  # lines of NCCL in whose place Ray printed another one
        self.tables, self.failures = TableLines(), FailureTables()
        self._seen: set[bytes] = set()
        self._heads: dict[bytes, Shapes] = {}
        self._kinds: dict[tuple[int, type], int] = {}

    def feed(self, chunk: bytes, section: int, *, ends_whole: bool = True) -> None:
        """Count a chunk of lines. `ends_whole`: its last line is complete, with or without a newline."""
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n")
        chunk, hidden = without_repeats(chunk)
        self.hidden += hidden
        shapes = _peers().sub(b"", chunk).split(b"\n")
        last = shapes.pop()
        base = self.lines.get(section, 0) + 1
        self.tables.feed(chunk, (section << 40) + base)
        self.failures.feed(chunk, (section << 40) + base)
        self.lines[section] = base - 1 + len(shapes)
        wanted = candidates(set(shapes) - self._seen)
        each = {shape for shape in wanted if WARNS in shape or _is_anonymous(shape)}
        lines = chunk.split(b"\n") if wanted or last else []
        for number in positions(shapes, wanted, each):
            if not self._another_channel(shapes[number]):
                self._slow(lines[number], (section << 40) + base + number)
        if len(self._seen) > CACHED:
            self._seen.clear()
            self._heads.clear()
        self._seen.update(shape for shape in wanted if shape not in each)
        if last and ends_whole:
            self.lines[section] += 1
            self._slow(lines[-1], (section << 40) + self.lines[section])
        elif last:
            self._last(lines[-1], section)

    def _another_channel(self, shape: bytes) -> bool:
        """Adds a channel to a leg that is known of the unit. Returns False if the shape is not of that
        kind."""
        head, _, words = shape.partition(MARK)
        known = self._heads.get(head)
        if known is None or not _CHANNEL.match(words):
            return False
        tail = words.partition(b" [")[2] or words.partition(VIA)[2]
        if tail not in known:
            return False
        known[tail] |= 1 << int(words[8:10]) % MOST_CHANNELS
        return True

    def _last(self, line: bytes, section: int) -> None:
        """Counts a last line without a newline, unless it may continue, with /GDRDMA or another digit."""
        number = self.lines.get(section, 0) + 1
        self.lines[section] = number
        words = line.partition(MARK)[2]
        whole = (
            b"/GDRDMA" in line or line.endswith(b"/Shared") or (VIA not in line and b" set " not in words)
        )
        if whole or number == 1:
            self._slow(line, (section << 40) + number)
        elif b"NCCL" in line:
            self._damage((section << 40) + number)

    # -- a shape that was not seen before ----------------------------------------------------------------

    def _slow(self, line: bytes, position: int) -> None:
        """Parses and counts one line."""
        text = line.decode("utf-8", "replace")
        prefix = frame(text)
        if prefix.cut:
            parts = between_lines(hosts=bool(prefix.process)).split(text)
            if len(parts) == 1:
                self._damage(position)
            for part in parts if len(parts) > 1 else ():
                self._slow(part.encode(), position)
            return
        if is_failed_call(text):
            self._record(self._unit(LogUnit(prefix.process, None)), CallFailed(), position, text, False)
        warns = b"NCCL WARN " in line
        message = in_english(prefix.message) if warns else prefix.message
        found = record(message)
        if warns and (found is None or isinstance(found, Plugin | AsyncEvent)):
            found = _warned(message) or found
        if found is None and prefix.device is None:
            found = watchdog_record(text) or _own_end(text)
        if found is None:
            if prefix.device is None:
                if (named := named_gpu(text)) is not None:
                    self._record(self._unit(LogUnit(named[0], None)), named[1], position, text, False)
                for variable in given(text):
                    self._record(self._unit(LogUnit("", None)), variable, position, text, False)
            if _ANY_CHANNEL.match(prefix.message):
                self._damage(position)
            return
        if isinstance(found, Leg):
            self._leg(line, prefix, found, position)
            return
        unit = self._unit(_unit_of(prefix, found))
        if isinstance(found, Failure) and found.call == "completion":
            found = replace(found, text="")  # names the peer: as many texts as peers
        self._record(unit, found, position, prefix.message, WARNS in line)

    def _leg(self, line: bytes, prefix: Frame, leg: Leg, position: int) -> None:
        words = prefix.message.encode()
        own = leg.target if leg.direction == "receive" and leg.target is not None else leg.source
        process = prefix.process
        unit = self._unit(LogUnit(process, prefix.device) if process else _anonymous(own))
        shapes = self.legs[unit]
        tail = words.partition(VIA)[2]
        if leg.direction:
            tail = f"{leg.direction}] via ".encode() + tail
        if process:
            self._heads[line.partition(MARK)[0]] = shapes
        if tail not in shapes:
            if len(self.firsts) >= MOST_SHAPES:
                raise FormatError(f"more than {MOST_SHAPES} kinds of channels")
            peer = leg.source if own == leg.target else leg.target
            first = FirstSeen(position, own, leg.own_gpu, leg.channel, peer, leg.peer_gpu)
            self.firsts[unit, tail] = first
        shapes[tail] = shapes.get(tail, 0) | (1 << leg.channel % MOST_CHANNELS)

    def _record(self, unit: int, found: NcclRecord, position: int, words: str, warns: bool) -> None:
        entry = self.entries.get((unit, found))
        if entry is not None:
            entry.count += warns
            return
        kind = unit, type(found)
        self._kinds[kind] = count = self._kinds.get(kind, 0) + 1
        if count > (MOST_CHECKS if isinstance(found, DiagnosticLine) else MOST_KINDS):
            self.forgotten += 1
        else:
            self.entries[unit, found] = TallyEntry(int(warns), position, words[:QUOTED])

    def _unit(self, unit: LogUnit) -> int:
        number = self.units.get(unit)
        if number is None:
            if len(self.units) >= MOST_UNITS:
                raise FormatError(f"more than {MOST_UNITS} processes")
            number = self.units[unit] = len(self.units)
            self.legs.append({})
        return number

    def _damage(self, position: int) -> None:
        self.damaged += 1
        if self.first_damaged < 0 or position < self.first_damaged:
            self.first_damaged = position

    # -- two parts of one job ----------------------------------------------------------------------------

    def add(self, other: Tally) -> None:
        """Adds the counts of another tally, of other sections. The order does not matter."""
        names = {number: self._unit(unit) for unit, number in other.units.items()}
        for theirs, shapes in enumerate(other.legs):
            mine = self.legs[names[theirs]]
            for tail, channels in shapes.items():
                mine[tail] = mine.get(tail, 0) | channels
        for (theirs, tail), first in other.firsts.items():
            key = names[theirs], tail
            self.firsts[key] = min(first, self.firsts.get(key, first))
        for (unit, found), entry in other.entries.items():
            here = self.entries.setdefault((names[unit], found), TallyEntry(0, entry.position, entry.words))
            here.count += entry.count
            if entry.position < here.position:
                here.position, here.words = entry.position, entry.words
        for section, lines in other.lines.items():
            self.lines[section] = self.lines.get(section, 0) + lines
        self.damaged += other.damaged
        self.forgotten += other.forgotten
        self.hidden += other.hidden
        self.tables.lines.update(other.tables.lines)
        self.failures.add(other.failures)
        positions = [position for position in (self.first_damaged, other.first_damaged) if position >= 0]
        self.first_damaged = min(positions, default=-1)


def _warned(message: str) -> Warned | None:
    """What another warning of NCCL or of a plugin means; None if that is not known."""
    from gdrkit import catalogue  # all messages: large, and needed for few logs
    from gdrkit.messages import registration

    found = catalogue.match(f"NCCL WARN {message}")  # some rows are about warnings alone
    meaning = None if found is None else found.message.meaning
    if found is not None and meaning is not None and meaning.effect in ("failure", "follows"):
        return Warned(found.message.program, (), decides=False, meaning=meaning)
    if found is None or not found.causes:
        causes = registration.causes(message)
        what = REGISTRATION if causes and not _of_host_memory(message) else "nccl"
        return Warned(what, causes, decides=False) if causes else None
    row = found.message
    return Warned(row.program, found.causes, row.decides and not row.hides_error)


def _own_end(text: str) -> Warned | None:
    """That a process stopped by itself; None if a line does not show that."""
    from gdrkit import catalogue

    if own_end(text, None) is None:
        return None
    meaning = own_end(text, catalogue.match(text))
    return None if meaning is None else Warned(OWN_END, (), decides=False, meaning=meaning)


def _of_host_memory(message: str) -> bool:
    """Whether a plugin names the memory by its type, and that is the host's: NCCL_PTR_HOST is 1, NCCL
    src/include/plugin/nccl_net.h."""
    return "type = 1)" in message


def _unit_of(prefix: Frame, found: NcclRecord) -> LogUnit:
    """The origin of a record that is not a channel."""
    if isinstance(found, Communicator) and not prefix.process:
        return _anonymous(found.rank)
    if isinstance(found, Operation | Progress):
        return _anonymous(found.process)
    return LogUnit(prefix.process, None if isinstance(found, Version) else prefix.device)


def _anonymous(rank: int) -> LogUnit:
    """The origin of lines without a process, as people paste them: the rank stands for it."""
    return LogUnit(f"rank {rank}", None)


def _is_anonymous(shape: bytes) -> bool:
    """Whether a shape is a channel of no process: then the ranks in it are the only names, so all lines
    count."""
    return VIA in shape and not frame(shape.decode("utf-8", "replace")).process


@functools.cache
def _peers() -> re.Pattern[bytes]:
    """The two ranks, in which channel lines of one shape differ; never across lines."""
    return re.compile(rb": [^ \n]++ -> [^ \n]++")
