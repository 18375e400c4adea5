"""What listings of devices decide: links that lspci calls downgraded, and NICs that a job names and that are
not there."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from gdrkit.explain.blocks import EVIDENCE
from gdrkit.explain.readings import Reading
from gdrkit.explain.settings import settings
from gdrkit.explain.transcript import TextLine

HCA = "NCCL_IB_HCA"

_PATTERNS = {
    "device": r"\s*(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] [A-Z0-9]",
    "link_cap": r"\s*LnkCap:.{0,40}\bSpeed (?P<speed>[\d.]{1,5})GT/s, Width x(?P<width>\d{1,2})\b",
    "link_sta": (
        r"\s*LnkSta:\s*Speed (?P<speed>[\d.]{1,5})GT/s(?P<slow> \(downgraded\))?,"
        r" Width x(?P<width>[1-9]\d?)(?P<narrow> \(downgraded\))?"
    ),
    "listed": r"\s*(?P<name>[a-z][\w.-]{1,40})\s+[0-9a-f]{16}\s*$",  # a row of ibv_devices
    "printed": r"NCCL_IB_HCA set (?:by environment )?to (?P<value>[\w=^:,.-]{1,200}?)\.?\s*$",
}


@functools.cache
def _compiled(name: str) -> re.Pattern[str]:
    return re.compile(_PATTERNS[name])


def device_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """Links that are slower than both their ends, and NICs in NCCL_IB_HCA that NCCL does not find."""
    yield from _links(lines)
    yield from _absent_nics(lines)


def _links(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The width of any device's link, and the speed of a NIC's: an idle GPU lowers the speed of its link.

    lspci compares with the port above, so the line proves it whatever else the text leaves out."""
    title, best = "", None
    for position, line in enumerate(lines):
        if line.kind not in EVIDENCE:
            continue
        if _compiled("device").match(line.text):
            title, best = line.text, None
        elif found := _compiled("link_cap").match(line.text):
            best = found
        elif best is not None and (found := _compiled("link_sta").match(line.text)):
            slower = bool(found["slow"]) and "controller: NVIDIA" not in title
            speed = f"{found['speed']} of {best['speed']} GT/s" if slower else ""
            width = f"x{found['width']} of x{best['width']}" if found["narrow"] else ""
            if seen := " and ".join(filter(None, (speed, width))):
                yield Reading(line, position, ("link-degraded",), f"the link runs at {seen}", decides=True)
            best = None


def _absent_nics(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """NCCL_IB_HCA that names none of the RDMA devices that the text lists, where NCCL finds no device.

    Source: NCCL src/misc/utils.cc, parseStringList(): a prefix, exact after `=`, left out after `^`."""
    listed = {
        found["name"]
        for line in lines
        if line.kind in EVIDENCE and (found := _compiled("listed").match(line.text))
    }
    if not listed or not any("No device found" in line.text for line in lines if line.kind == "machine"):
        return
    given = settings(lines)
    for position, line in enumerate(lines):
        values = [value for name, value in given.get(line.number, ()) if name == HCA]
        printed = _compiled("printed").search(line.text) if line.kind == "machine" else None
        values += [printed["value"]] if printed else []
        for value in values:
            names = [name.partition(":")[0] for name in value.lstrip("=").split(",") if name]
            known = any(nic.startswith(name) for nic in listed for name in names)
            if names and not value.startswith("^") and not known:
                note = f"the text lists {', '.join(sorted(listed))}, and none is called {value}"
                yield Reading(line, position, ("hca-not-selected",), note)
                return
