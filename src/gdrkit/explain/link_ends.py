"""The two ends of PCIe links in the output of lspci: a link can do what the weaker one can."""

from __future__ import annotations

import re

from gdrkit.explain.blocks import EVIDENCE
from gdrkit.explain.transcript import TextLine
from gdrkit.formats.regex import regex

_BELOW = regex(r"\bsecondary=(?P<bus>[0-9a-f]{2})\b")


def other_ends(
    lines: tuple[TextLine, ...], device: re.Pattern[str], link_cap: re.Pattern[str]
) -> dict[str, re.Match[str]]:
    """What the other end of a device's link can do, where its entry is in the text too: for a device the
    bridge above it, for a bridge the first device below."""
    title, bridges = "", dict[str, str]()
    capable: dict[str, re.Match[str]] = {}
    for line in lines:
        if line.kind not in EVIDENCE:
            continue
        if device.match(line.text):
            title = line.text.split()[0]
        elif found := _BELOW.search(line.text):
            bridges[found["bus"]] = title
        elif found := link_cap.match(line.text):
            capable.setdefault(title, found)
    ends: dict[str, re.Match[str]] = {}
    for address, can in capable.items():
        above = bridges.get(address.split(":")[-2]) if ":" in address else None
        if above in capable:
            ends[address] = capable[above]
            ends.setdefault(above, can)
    return ends


def reaches(status: re.Match[str], ends: tuple[re.Match[str], ...]) -> bool:
    """Whether a link runs as fast and as wide as the weaker of these ends can."""
    speed = min(float(end["speed"]) for end in ends)
    width = min(int(end["width"]) for end in ends)
    return float(status["speed"]) >= speed and int(status["width"]) >= width
