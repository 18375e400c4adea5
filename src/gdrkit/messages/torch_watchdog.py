"""What PyTorch prints when a collective operation hangs, of several ranks: which of them differs.

Each process numbers the operations of each process group. What it started last, and in which operation its
watchdog gave up, shows whether it is behind or calls another operation than the others; one line alone does
not. A group with operations between two ranks is left out: those differ by design.

Sources: PyTorch torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, of 2.3 to 2.9, and TraceUtils.h, the
report of TORCH_NCCL_DESYNC_DEBUG; torch/distributed/flight_recorder/components/utils.py.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from gdrkit.formats.number_ranges import number_ranges
from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.messages.message import LINE_CHARACTERS, Effect, Meaning

TIMED_OUT = Meaning(
    "A collective operation did not finish in time; the line does not say why",
    "Look for the first error of all ranks; without one, find the rank that did not arrive",
    effect="follows",
)


class Operation(Struct, frozen=True):
    """The operation in which the watchdog of a process gave up."""

    process: int  # global rank; that in its process group where the line has no other
    work: int
    kind: str  # ALLREDUCE
    sizes: str  # of input and output


class Progress(Struct, frozen=True):
    """How far a process is in a process group."""

    process: int
    group: str
    rank: int  # in the group
    work: int | None  # the operation that does not finish; None of a process that only hears of it
    enqueued: int  # the last operation whose call returned
    named: bool  # whether its group has a name that no other group has


class Lagging(Struct, frozen=True):
    """The ranks that an analysis of PyTorch names as late."""

    ranks: str  # `rank 7`
    work: str  # which they did not join; "" if the line has no number


WatchdogRecord = Operation | Progress | Lagging


class Stall(Struct, frozen=True):
    """What the lines of all ranks show together, and the position of the line that shows it best."""

    words: str
    todo: str
    position: int
    effect: Effect = "failure"


# -- lines -----------------------------------------------------------------------------------------------

_TAG = regex(r"\[rank(\d{1,7})\]")
_LEAD_CHARACTERS = 200
"""How far from the beginning of a line a launcher writes the rank."""
_OPERATION = regex(
    r"\[Rank (?P<rank>\d{1,7})\] Watchdog caught collective operation timeout: "
    r"WorkNCCL\(SeqNum=(?P<work>\d{1,15}), OpType=(?P<kind>\w{1,40})"
    r"(?:, NumelIn=(?P<taken>\d{1,18}), NumelOut=(?P<given>\d{1,18}))?"
)
_GROUP = (
    r"\[PG (?P<named>ID \d{1,9} PG GUID )?(?P<group>[^\s\]]{1,80}(?: ?\([^)\]]{0,80}\))?)"
    r" Rank (?P<rank>\d{1,7})\]"
)
_PROGRESS = regex(
    _GROUP + r".{0,160}?(?: at (?:NCCL )?work(?: sequence id)?: (?P<work>\d{1,15})\b.{0,16}?)?"
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,15})\b"
)
_LAGGING = regex(
    r"\[(?P<some>\d[\d, ]{0,4000})\] finished collective #\d{1,15}, but didn't join collective"
    r" #(?P<work>\d{1,15})"
    r"|ranks \[(?P<never>\d[\d, ]{0,4000})\] are the lagging ranks that caused this timeout"
    r"|^\s{0,40}missing ranks: \{(?P<missing>\d[\d, ]{0,4000})\}"
)
MARKS = ("Watchdog caught", "ast enqueued ", "didn't join", "lagging ranks", "missing ranks: {")
"""Each such line has one of these."""
_POINT_TO_POINT = ("SEND", "RECV", "COALESCED", "UNKNOWN")
"""Operations that not all ranks take part in, and that have numbers of their own."""
_SIZED_ALIKE = (
    "ALLREDUCE", "ALLREDUCE_COALESCED", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE",
)  # fmt: skip
"""Operations that all ranks call with the same sizes."""


def watchdog_record(line: str) -> WatchdogRecord | None:
    """What a line of PyTorch's watchdog shows; None if it is another line."""
    if not any(mark in line for mark in MARKS):
        return None
    line = line[:LINE_CHARACTERS]
    tag = _TAG.search(line[:_LEAD_CHARACTERS])
    if found := _OPERATION.search(line):
        taken, given = found["taken"] or "", found["given"] or ""
        sizes = taken if taken == given else f"{taken} to {given}"
        process = int(tag[1] if tag else found["rank"])
        return Operation(process, int(found["work"]), found["kind"], sizes)
    if found := _PROGRESS.search(line):
        process = int(tag[1] if tag else found["rank"])
        work = None if found["work"] is None else int(found["work"])
        group = found["group"].replace(" ", "")
        named = found["named"] is not None
        return Progress(process, group, int(found["rank"]), work, int(found["enqueued"]), named)
    if found := _LAGGING.search(line):
        some = (found["some"] or found["never"] or found["missing"]).split(",")
        numbers = number_ranges(int(number) for number in some if number.strip().isdecimal())
        return Lagging(f"rank{'s' * (len(some) > 1)} {numbers}", found["work"] or "")
    return None


# -- what they show together -----------------------------------------------------------------------------

_LOOK = "Look at what runs there instead: the log of that rank, and `py-spy dump --pid PID` while it hangs"
_ORDER = (
    "Compare what these ranks run: a branch, a data loader or an evaluation that not all of them take;"
    " TORCH_DISTRIBUTED_DEBUG=DETAIL names the first call that differs. The network is not the cause"
)
_RECORD = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 keeps a record of each rank's calls for the next run"
_OF_SILENT = (
    "Look at {} first: the output there, `dmesg` of the node (Xid, out of memory), and, if the process still"
    f" runs, `py-spy dump --pid PID`. {_RECORD}"
)
_NONE_BEHIND = (
    "Look for the first NCCL WARN of any rank, for Xid errors in dmesg, and at the ranks without a line."
    f" {_RECORD}"
)


class _Waiting(Struct, frozen=True):
    """A process that is in a process group whose operation hangs."""

    progress: Progress
    operation: Operation | None
    position: int

    @property
    def sizes(self) -> str:
        """The sizes of its operation, if all ranks have to give the same."""
        known = self.operation
        return known.sizes if known is not None and known.kind in _SIZED_ALIKE else ""

    @property
    def kind(self) -> str:
        return self.operation.kind if self.operation is not None else ""


def stalled(found: Iterable[tuple[int, WatchdogRecord]]) -> Stall | None:
    """What the lines of all ranks show together, with their positions; None without such a line."""
    lines = sorted(found, key=lambda one: one[0])
    if not lines:
        return None
    for position, record in lines:
        if isinstance(record, Lagging):
            joined = f"operation {record.work}" if record.work else "the operation"
            words = f"PyTorch reports that {record.ranks} did not join {joined} in which the others wait"
            return Stall(words, _LOOK, position)
    groups = _groups(lines)
    shown = [stall for group in groups.values() if (stall := _of_group(group)) is not None]
    shown.sort(key=lambda stall: stall.effect == "follows")
    return shown[0] if shown else Stall(TIMED_OUT.words, TIMED_OUT.todo, lines[0][0], TIMED_OUT.effect)


def _groups(lines: list[tuple[int, WatchdogRecord]]) -> dict[str, list[_Waiting]]:
    """The processes of each process group, by what they print first of an operation that hangs."""
    operations = {(one.process, one.work): one for _, one in reversed(lines) if isinstance(one, Operation)}
    groups: dict[str, dict[int, _Waiting]] = defaultdict(dict)
    for position, one in lines:
        if isinstance(one, Progress):
            known = groups[one.group].get(one.process)
            if known is None or (known.progress.work is None and one.work is not None):
                operation = None if one.work is None else operations.get((one.process, one.work))
                groups[one.group][one.process] = _Waiting(one, operation, position)
    return {name: list(members.values()) for name, members in groups.items() if _is_one_group(members)}


def _is_one_group(members: dict[int, _Waiting]) -> bool:
    """Whether these are of one group. Up to PyTorch 2.4 each process numbers its groups, so that only of one
    with all ranks the number is the same everywhere; and logs of several jobs have names twice."""
    some = [one.progress for one in members.values()]
    of_all = all(one.named or one.process == one.rank for one in some)
    return of_all and len({one.rank for one in some}) == len(some)


def _of_group(members: list[_Waiting]) -> Stall | None:
    """What the processes of one group show together; None if there is one alone, or none hangs."""
    works = Counter(one.progress.work for one in members if one.progress.work is not None)
    if len(members) < 2 or not works or any(one.kind in _POINT_TO_POINT for one in members):
        return None
    work = max(works, key=lambda one: (works[one], -one))
    waiting = [one for one in members if one.progress.work == work]
    usual = Counter(one.kind for one in waiting if one.kind).most_common(1)
    name = f"operation {work}" + (f" ({usual[0][0]})" if usual else "")
    if behind := [one for one in members if one.progress.enqueued < work]:
        words = f"{_ranks(behind)} did not start {name}, or did not return from that call"
        return Stall(f"{words}; {_count(waiting)} in it", _LOOK, behind[0].position)
    if (differs := _differs(waiting, work)) is not None:
        return differs
    if elsewhere := [one for one in members if one.progress.work not in (work, None)]:
        others = ", ".join(sorted({str(one.progress.work) for one in elsewhere})[:MOST_NAMED])
        words = f"{_ranks(elsewhere)} hang in operation {others}, and {_count(waiting)} in {name}"
        return Stall(words, _NONE_BEHIND, elsewhere[0].position)
    words = f"{_count(waiting)} in {name}, and none of the ranks in the text is behind"
    if not (silent := _silent(members)):
        return Stall(words, _NONE_BEHIND, waiting[0].position, "follows")
    one = len(silent) == 1
    numbers = f"{'rank' if one else 'ranks'} {number_ranges(silent)}"
    words = f"{_count(waiting)} in {name}, and {numbers} of their group {'has' if one else 'have'} no line"
    return Stall(words, _OF_SILENT.format(numbers), waiting[0].position, "follows")


def _silent(members: list[_Waiting]) -> set[int]:
    """The ranks of a group that no line names, up to the highest that one does. More than half of them are
    rather of a log that was cut."""
    ranks = {one.progress.rank for one in members}
    left = max(ranks) + 1 - len(ranks)
    return set(range(max(ranks))) - ranks if left < len(ranks) else set()


def _differs(waiting: list[_Waiting], work: int) -> Stall | None:
    """That ranks run different operations, or one with different sizes, at the same place of their order."""
    for what in ("kind", "sizes"):
        found = Counter(value for one in waiting if (value := getattr(one, what)))
        if len(found) < 2:
            continue
        usual = found.most_common(1)[0][0]
        others = [one for one in waiting if getattr(one, what) not in ("", usual)]
        calls = " and ".join(sorted({getattr(one, what) for one in others})[:MOST_NAMED])
        rest = f"{plural(found[usual], 'other rank')} run{'s' * (found[usual] == 1)}"
        if what == "sizes":
            calls, usual = f"{others[0].kind} with {calls} elements", f"it with {usual}"
        run = f"run{'s' * (len(others) == 1)}"
        words = f"{_ranks(others)} {run} {calls} as operation {work}, where {rest} {usual}"
        return Stall(words, _ORDER, others[0].position)
    return None


MOST_NAMED = 3
"""Operations that are named one by one."""


def _ranks(some: list[_Waiting]) -> str:
    numbers = number_ranges(one.progress.process for one in some)
    return f"{'Rank' if len(some) == 1 else 'Ranks'} {numbers}"


def _count(waiting: list[_Waiting]) -> str:
    return f"{plural(len(waiting), 'rank')} {'hangs' if len(waiting) == 1 else 'hang'}"
