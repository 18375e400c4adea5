"""Lines by which a process of a job shows that it stopped by itself, whatever its peers report then."""

from __future__ import annotations

from gdrkit.formats.regex import regex
from gdrkit.messages.message import LINE_CHARACTERS, Match, Meaning

_RAISED = r"(?:\w{1,40}\.){0,6}\w{0,40}(?:Error|Exception): "
_LAST = regex(rf"\s{{0,8}}{_RAISED}")
"""The last line of a Python traceback, which looks like a sentence if it is pasted alone."""
_LED = regex(rf"(?:|.{{0,160}}?[\])>|]:?)\s{{0,8}}{_RAISED}")
"""The same after the rank or the process that launchers write in front: `[rank13]: `, `(Worker pid=7) `."""
_KILLED = regex(r"\bexitcode ?: ?-(?:7|9|11)\b|\bSignal (?:7|9|11) \(SIG|\bOOMKilled\b")
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


_STOPPED = Meaning(
    "A process stopped by an error of its own; what its peers report may follow from that",
    "Correct that error first",
)


def own_end(text: str, known: Match | None) -> Meaning | None:
    """What a line means by which a process stopped itself, or was killed; None if it is another line.
    `known`: the message in it."""
    text = text[:LINE_CHARACTERS]
    by_itself = _LED.match(text) is not None and _BY_PEERS.search(text) is None
    if not by_itself and _KILLED.search(text) is None:
        return None
    if known is None or (known.message.meaning is None and not known.causes):
        return _STOPPED
    meaning = known.message.meaning
    return meaning if meaning is not None and meaning.effect == "failure" else None
