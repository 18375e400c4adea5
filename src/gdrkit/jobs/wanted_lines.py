"""Which lines of a log may have a form that is known, before any of them is parsed."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.formats.regex import regex
from gdrkit.messages.torch_watchdog import MARKS

MARK = b" NCCL INFO "
WANTED = frozenset(
    (
        b"Assi", b"Boot", b"Call", b"Chan", b"Coll", b"Conn", b"Coun", b"DMA-", b"Data", b"Dete", b"Fail",
        b"GPU ", b"Got ", b"HINT", b"MNNV", b"Mism", b"NCCL", b"NET/", b"P2P ", b"Plug", b"RCCL", b"Ring",
        b"Subn", b"Succ", b"Usin", b"[Ran", b"comm", b"dlvs", b"mess", b"nccl",
    )
)  # fmt: skip
"""The first four bytes of messages that may have a known form."""

_BARE = regex(
    rb"[\s#>|*]{0,8}(?:(?:Channel|Ring|CollNet|Coll) \d\d|NET/|MNNVL |GPU Direct RDMA |comm 0x|GPU \d+: )"
    rb"|(?:\[\d+,\d+\]<\w+>:? ?|\d+: ?)?# +Rank +\d"
)
"""Messages that people paste without the frame, and lines that name a GPU."""


_ENDS = (b"Error: ", b"Exception: ", b"exitcode", *(mark.encode() for mark in MARKS))
"""What lines have that show that a process stopped by itself, or which did not join the others."""


def _ending(shapes: list[bytes]) -> list[bytes]:
    """Those of many lines that have one of these. Most texts have none: all lines are searched at once."""
    whole = b"\n".join(shapes)
    marks = [mark for mark in _ENDS if mark in whole]
    return [shape for shape in shapes if any(mark in shape for mark in marks)] if marks else []


_UNUSUAL = regex(rb"Dev (\d+) [^(]{20,80} mtu (?:([1-4]) [^(]*GID |5 [^(]*GID -?\d+ \((80FE)/)")
"""A RoCE connection with small packets or a link-local address."""


def candidates(shapes: set[bytes]) -> list[bytes]:
    """The lines that may have a known form."""
    found: list[bytes] = []
    others: list[bytes] = []
    connections: dict[tuple[bytes, ...], bytes] = {}  # of each thread and device one
    for shape in shapes:
        at = shape.find(MARK)
        if at < 0:
            (found if b"NCCL" in shape or _BARE.match(shape) else others).append(shape)
            continue
        kind = shape[at + 11 : at + 15]
        if kind not in WANTED:
            continue
        if kind == b"NET/" and b" mtu " in shape:
            if line := _UNUSUAL.search(shape):
                key = (shape[:at], *line.groups(b""))
                connections[key] = min(shape, connections.get(key, shape))
        elif kind != b"Conn" or b"Connected to" not in shape:
            found.append(shape)
    return [*found, *connections.values(), *_ending(others)]


FEW = 8
"""Below this number, shapes are found faster one by one than in a pass over all lines of a chunk."""


def positions(shapes: list[bytes], wanted: list[bytes], each: set[bytes]) -> Iterator[int]:
    """The first index of each wanted shape, and every index of those of which each one counts."""
    if not wanted:
        return
    if len(wanted) < FEW and not each:
        yield from sorted(map(shapes.index, wanted))
        return
    left = set(wanted)
    for number, shape in enumerate(shapes):
        if shape in left:
            if shape not in each:
                left.discard(shape)
            yield number
