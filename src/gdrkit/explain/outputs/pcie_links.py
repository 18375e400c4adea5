"""Links that lspci shows to be slower or narrower than the weaker of their ends."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gdrkit.explain.explanation import ONE_END
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats.regex import regex

_DEVICE = regex(r"\s*(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] [A-Z0-9]")
_NAMED = regex(r"\s*\S+ (?!(?:Lnk|ACS|Dev)(?:Cap|Sta|Ctl))[A-Z0-9][^:]{2,60}: \S")
_BELOW = regex(r"\bsecondary=(?P<bus>[0-9a-f]{2})\b")
_LINK_CAP = regex(r"\s*LnkCap:.{0,40}\bSpeed (?P<speed>[\d.]{1,5})GT/s, Width x(?P<width>\d{1,2})\b")
_LINK_STA = regex(
    r"\s*LnkSta:\s*Speed (?P<speed>[\d.]{1,5})GT/s(?: \(ok\)|(?P<slow> \(downgraded\)))?,"
    r" Width x(?P<width>[1-9]\d?)(?P<narrow> \(downgraded\))?"
)


def link_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The width of any device's link, and the speed of a NIC's: an idle GPU lowers the speed of its link.

    A link can do what the weaker of its ends can, and lspci marks what is less than this end can (pciutils
    ls-caps.c, link_compare()): that is proof only where the other end is shown and can do more, too. In an
    excerpt the device, or what its link can be, is not shown; older releases mark nothing."""
    title, best, ends = "", None, _other_ends(lines)
    for position, line in enumerate(lines):
        if line.kind not in EVIDENCE:
            continue
        if _DEVICE.match(line.text):
            title, best = line.text, None
        elif found := _LINK_CAP.match(line.text):
            best = found
        elif found := _LINK_STA.match(line.text):
            address = title.split()[0] if title else ""
            seen = " and ".join(_less(found, best, title))
            other = ends.get(address)
            if seen and not (best and other and _reaches(found, (best, other))):
                marked = bool(best and title and (found["slow"] or found["narrow"]))
                note = f"{f'the link of {address}' if title else 'the link'} runs at {seen}"
                note += "" if best and other else f"; {ONE_END}"
                decides = marked and other is not None
                yield Reading(line, position, ("link-degraded",), note, decides=decides)
            best = None


def _other_ends(lines: tuple[TextLine, ...]) -> dict[str, re.Match[str]]:
    """What the other end of a device's link can do, where its entry is in the text too: for a device the
    bridge above it, for a bridge the first device below."""
    title, bridges = "", dict[str, str]()
    capable: dict[str, re.Match[str]] = {}
    for line in lines:
        if line.kind not in EVIDENCE:
            continue
        if _DEVICE.match(line.text):
            title = line.text.split()[0]
        elif found := _BELOW.search(line.text):
            bridges[found["bus"]] = title
        elif found := _LINK_CAP.match(line.text):
            capable.setdefault(title, found)
    ends: dict[str, re.Match[str]] = {}
    for address, can in capable.items():
        above = bridges.get(address.split(":")[-2]) if ":" in address else None
        if above in capable:
            ends[address] = capable[above]
            ends.setdefault(above, can)
    return ends


def _reaches(status: re.Match[str], ends: tuple[re.Match[str], ...]) -> bool:
    """Whether a link runs as fast and as wide as the weaker of these ends can."""
    speed = min(float(end["speed"]) for end in ends)
    width = min(int(end["width"]) for end in ends)
    return float(status["speed"]) >= speed and int(status["width"]) >= width


def _less(status: re.Match[str], can: re.Match[str] | None, title: str) -> Iterator[str]:
    """The speed and the width at which a link runs, if it can do more. The speed alone shows no fault where
    the device is a GPU, or is not shown."""
    marked = bool(status["narrow"])
    narrow = marked or (can is not None and int(status["width"]) < int(can["width"]))
    may_be_idle = "controller: NVIDIA" in title or not (_NAMED.match(title) or narrow)
    if status["slow"] and not may_be_idle:
        yield f"{status['speed']} of {can['speed']} GT/s" if can else f"{status['speed']} GT/s"
    if narrow:
        yield f"x{status['width']} of x{can['width']}" if can else f"x{status['width']}, downgraded"
