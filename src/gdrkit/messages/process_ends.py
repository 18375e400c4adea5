"""Lines by which a process of a job shows that it stopped by itself, whatever its peers report then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.messages.message import LINE_CHARACTERS, Match, Meaning

_RAISED = r"(?:\w{1,40}\.){0,6}\w{0,40}(?:Error|Exception): "
_LAST = regex(rf"\s{{0,8}}{_RAISED}")
"""The last line of a Python traceback, which looks like a sentence if it is pasted alone."""
_LED = regex(rf"(?:|.{{0,160}}?[\])>|]:?)\s{{0,8}}{_RAISED}")
"""The same after the rank or the process that launchers write in front: `[rank13]: `, `(Worker pid=7) `."""
_KILLED = regex(
    r"\bexitcode ?: ?-(?:7|9|11)\b|\bSignal (?:7|9|11) \(SIG|\bOOMKilled\b"
    r"|:sigkill_handler\] .* exits with return code = -(?:7|9|11)$"
)
"""torch/distributed/elastic/multiprocessing; the reason of a container in Kubernetes. Signal 6 is the
watchdog's, which waits for others. A kernel log may be about any process: messages/terminations.py."""
_BY_PEERS = regex(
    r"NCCL|\bnccl\w|\bDist(?:Backend|Store|Network)?Error|ChildFailed|Timeout|timed out|[Cc]onnection"
    r"|[Bb]roken ?[Pp]ipe|[Cc]ollective|EOFError|Warning|(?:ActorDied|RayActor|EngineDead)Error|Engine core"
)
"""Exceptions by which a process reports what happened to others, or to their connection."""


def is_raised(text: str) -> bool:
    """Whether a line is the last one of a Python traceback."""
    return _LAST.match(text) is not None


STOPPED = Meaning(
    "A process stopped by an error of its own; what its peers report may follow from that",
    "Correct that error first",
)


def own_end(text: str, known: Match | None) -> Meaning | None:
    """What a line means by which a process stopped itself, or was killed; None if it is another line.
    `known`: the message in it."""
    text = text[:LINE_CHARACTERS]
    if not _is_own_error(text) and _KILLED.search(text) is None:
        return None
    if known is None or (known.message.meaning is None and not known.causes):
        return STOPPED
    meaning = known.message.meaning
    return meaning if meaning is not None and meaning.effect == "failure" else None


def _is_own_error(text: str) -> bool:
    return _LED.match(text) is not None and _BY_PEERS.search(text) is None


# -- what launchers say -----------------------------------------------------------------------------------

TABLE = "Root Cause (first observed failure)"
"""PyTorch torch/distributed/elastic/multiprocessing/errors/__init__.py, ChildFailedError.format_msg()."""
_FIELD = regex(r"\b(?P<key>host|rank|exitcode)\s{0,8}: (?P<value>[\w.-]{1,255})")
_SIGNAL = regex(r"traceback\s{0,8}: (?P<signal>Signal (?P<number>\d{1,2}) \(SIG[A-Z]{2,8}\))")
_TABLE_END = "=" * 20
TABLE_LINES = 60
"""Lines of a table that are read at most: a traceback may be in it."""
OF_SIGNAL = {
    "7": "Look at `df -h /dev/shm` there: SIGBUS is memory that cannot be backed, such as a full /dev/shm",
    "9": "Look there for who killed it: `dmesg -T`, or `kubectl describe pod` (OOMKilled). Most often the"
    " host or the container is out of memory",
    "11": "Read the output of that rank, or its core dump: it crashed by itself",
}
"""What to look at, by the signal: signal(7)."""


BY_TABLE = "The first failure, by torchrun's table: "


class FirstFailure(Struct, frozen=True):
    """The first process of a job that failed, as torchrun observed it: by which line, and what to do."""

    line: int
    words: str
    todo: str
    by_itself: bool  # false: its own output says why, which may be what happened to others


_SIGNALS = {7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV"}
LAUNCHER = ":sigkill_handler] "
_LAUNCHED = regex(
    r"(?:(?P<host>\w[\w.-]{0,80}): {1,4})?(?:\[[\d :,-]{10,40}\] )?\[ERROR\] \[launch\.py:\d{1,5}"
    r":sigkill_handler\] .* exits with return code = (?P<code>-?\d{1,3})$"
)
"""DeepSpeed deepspeed/launcher/launch.py, behind pdsh's prefix of a job over several hosts. The command is
always that of the last process that it started, so that --local_rank is not of the one that ended."""


def first_failures(lines: Iterable[tuple[int, str]]) -> Iterator[FirstFailure]:
    """The first failure that each table of torchrun, and each launcher of DeepSpeed, names in numbered
    lines."""
    table: list[tuple[int, str]] | None = None
    for number, text in lines:
        if LAUNCHER in text and (ended := _LAUNCHED.search(text[:LINE_CHARACTERS])) is not None:
            yield from _of_launcher(number, ended["host"] or "", int(ended["code"]))
        elif TABLE in text:
            table = []
        elif table is not None and (_TABLE_END in text or len(table) == TABLE_LINES):
            yield from _first_failure(table)
            table = None
        elif table is not None:
            table.append((number, text[:LINE_CHARACTERS]))
    yield from _first_failure(table or [])


def _first_failure(table: list[tuple[int, str]]) -> Iterator[FirstFailure]:
    """That of one table. A watchdog that waits for others ends its process with signal 6, a launcher with
    15."""
    fields: dict[str, tuple[int, str]] = {}
    for number, text in table:
        if found := _FIELD.search(text):
            fields.setdefault(found["key"], (number, found["value"]))
    if {"host", "rank", "exitcode"} - fields.keys():
        return
    (at, code), where = fields["exitcode"], f"rank {fields['rank'][1]} on {fields['host'][1]}"
    signals = ((number, _SIGNAL.search(text)) for number, text in table)
    signal = next(((number, found) for number, found in signals if found is not None), None)
    error = next((number for number, text in table if _is_own_error(text)), None)
    if signal is not None and (todo := OF_SIGNAL.get(signal[1]["number"])) is not None:
        yield FirstFailure(signal[0], f"{BY_TABLE}{where} was ended by {signal[1]['signal']}", todo, True)
    elif error is not None:
        yield FirstFailure(error, f"{BY_TABLE}an error of {where} itself", "Correct that error first", True)
    elif not code.startswith("-"):
        todo = "Read the output of that rank: its own error comes first"
        yield FirstFailure(at, f"{BY_TABLE}{where} ended with exit code {code}", todo, False)


def _of_launcher(number: int, host: str, code: int) -> Iterator[FirstFailure]:
    """How the first process of a host ended. Its launcher ends the others of that host alone."""
    where = f"By DeepSpeed's launcher, a process{' on ' if host else ''}{host}"
    if (todo := OF_SIGNAL.get(str(-code))) is not None:
        last = "The --local_rank of the line is of the last process started, not of the one that ended"
        yield FirstFailure(number, f"{where} was ended by {_SIGNALS[-code]}", f"{todo}. {last}", True)
    elif code > 0:
        todo = "Read the output of the ranks there: the first error is above the launcher's lines"
        yield FirstFailure(number, f"{where} ended with return code {code}", todo, False)
