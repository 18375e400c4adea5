"""Links that a text shows to carry less than one of their ends could: in lspci, and in the kernel's log.

Both compare a link with what its device can do alone. What the port above it can do separates a link that
lost lanes from a slot that has no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from gdrkit.explain.explanation import ONE_END, STATE, KnownFact
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.rdma_files import rdma_files
from gdrkit.explain.outputs.readings import Reading
from gdrkit.facts.pci_path import raw_gbit_per_s
from gdrkit.formats.regex import regex

LINKS = NARROW, DEGRADED = "link-narrower-than-port", "link-degraded"
IDLE = "idle link"

_DEVICE = regex(r"\s*(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] [A-Z0-9]")
_NAMED = regex(r"\s*\S+ (?!(?:Lnk|ACS|Dev)(?:Cap|Sta|Ctl))[A-Z0-9][^:]{2,60}: \S")
_OF_GPU = regex(r"controller(?: \[[0-9a-f]{4}\])?: NVIDIA")
_OF_NIC = regex(
    r"(?:Ethernet|Infiniband|Network) controller(?: \[[0-9a-f]{4}\])?: .*"
    r"(?:ConnectX|BlueField|NetXtreme-E|\bE8[123]\d\b)"
)
"""NICs that can be RDMA devices. Source of the names: pci.ids."""
_BELOW = regex(r"\bsecondary=(?P<bus>[0-9a-f]{2})\b")
_LINK_CAP = regex(r"\s*LnkCap:.{0,40}\bSpeed (?P<speed>[\d.]{1,5})GT/s, Width x(?P<width>\d{1,2})\b")
_LINK_STA = regex(
    r"\s*LnkSta:\s*Speed (?P<speed>[\d.]{1,5})GT/s(?: \(ok\)|(?P<slow> \(downgraded\)))?,"
    r" Width x(?P<width>[1-9]\d?)(?P<narrow> \(downgraded\))?"
)
_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]"
_KERNEL = regex(
    rf".{{0,120}}?\b(?P<driver>\w{{2,20}}) (?P<device>{_ADDRESS}): [\d.]{{1,9}} Gb/s available PCIe"
    r" bandwidth, limited by (?P<speed>[\d.]{1,5}) GT/s PCIe x(?P<width>[1-9]\d?) link at "
    rf"(?P<port>{_ADDRESS})"
    r" \(capable of [\d.]{1,9} Gb/s with (?P<best_speed>[\d.]{1,5}) GT/s PCIe x(?P<best_width>\d{1,2}) link"
)
"""Source: Linux drivers/pci/pci.c, __pcie_print_link_status(). Of two links that are equally slow it names
the upper one, and so the port above the device (pcie_bandwidth_available())."""
_NIC_DRIVERS = ("mlx5_core", "mlx4_core", "bnxt_en", "ice", "ionic")
"""Drivers of NICs that print that line: Linux drivers/net/ethernet, calls of pcie_print_link_status()."""


class Ability(Struct, frozen=True):
    """The speed and the width of a link, or those that an end of it can have."""

    gt_per_s: float
    width: int

    def __str__(self) -> str:
        return f"{self.gt_per_s:g} GT/s x{self.width}"

    def reaches(self, *ends: Ability) -> bool:
        """Whether it is as fast and as wide as the weaker of these ends can be."""
        speed, width = min(end.gt_per_s for end in ends), min(end.width for end in ends)
        return self.gt_per_s >= speed and self.width >= width


class ShownLink(Struct, frozen=True, kw_only=True):
    """A link that carries less than its device could, or than the port above it could."""

    position: int
    address: str  # of the device; "" where an excerpt does not show it
    port: str  # the port above it; "" where the text does not show it
    seen: str  # x4 of x16
    runs: Ability
    why: Literal["slot", "link", "open"]  # the port can do no more; both ends can; one end is not shown
    is_nic: bool | None  # the device can be an RDMA device; None: what it is, is not shown
    marked: bool  # the text shows what is compared with, and says that this is less
    slowest_port: float  # Gbit/s of the active network ports in the text; 0 if it does not show all

    @property
    def raw_gbit_per_s(self) -> float:
        return raw_gbit_per_s(self.runs.gt_per_s, self.runs.width)


def link_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """What the links in lspci and in the kernel's log may be: nothing, if a slot carries all of its port."""
    for link in shown_links(lines):
        line, enough = lines[link.position], 0 < link.slowest_port <= link.raw_gbit_per_s
        note = f"{f'the link of {link.address}' if link.address else 'the link'} runs at {link.seen}"
        if link.why == "link":
            yield Reading(line, link.position, (DEGRADED,), note, decides=link.marked)
        elif link.why == "open":
            codes = (DEGRADED,) if link.is_nic is False or enough else LINKS
            yield Reading(line, link.position, codes, f"{note}; {ONE_END}")
        elif link.is_nic and not enough:
            proven = link.slowest_port > 0
            yield Reading(line, link.position, (NARROW,), note if proven else STATE, decides=proven)


def shown_links(lines: tuple[TextLine, ...]) -> Iterator[ShownLink]:
    """The width of any device's link, and the speed of a NIC's: an idle GPU lowers the speed of its link.

    A link can do what the weaker of its ends can, and lspci marks what is less than this end can (pciutils
    ls-caps.c, link_compare()). In an excerpt the device, or what its link can be, is not shown; older
    releases mark nothing."""
    tree = _Tree(lines)
    for position, line, title, best in _under_titles(lines):
        if found := _LINK_STA.match(line.text):
            address = title.split()[0] if title else ""
            # both ends of a link show its speed
            end = tree.below(_short(address)) if "PCI bridge" in title else title
            if seen := " and ".join(_less(found, best, end)):
                other = tree.other_end(_short(address))
                ends = (_ability(best), other) if best is not None and other is not None else ()
                yield ShownLink(
                    position=position, address=address, port=tree.above(address), seen=seen,
                    runs=_ability(found), why=_why(_ability(found), ends), is_nic=_is_nic(title),
                    marked=bool(best and title and (found["slow"] or found["narrow"])),
                    slowest_port=tree.slowest_port,
                )  # fmt: skip
        elif found := _KERNEL.match(line.text):
            yield _of_kernel(found, position, tree)


def _under_titles(
    lines: tuple[TextLine, ...],
) -> Iterator[tuple[int, TextLine, str, re.Match[str] | None]]:
    """The other lines of a listing, each with its position, the title of its device, and what its link can
    do, for the first state below that."""
    title, best = "", None
    for position, line in enumerate(lines):
        if line.kind not in EVIDENCE:
            continue
        if _DEVICE.match(line.text):
            title, best = line.text, None
        elif found := _LINK_CAP.match(line.text):
            best = found
        else:
            yield position, line, title, best
            if _LINK_STA.match(line.text):
                best = None


def idle_link_facts(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    """The first GPU whose link has all its lanes, and not its speed."""
    for _, line, title, best in _under_titles(lines):
        if (found := _LINK_STA.match(line.text)) and best is not None and _OF_GPU.search(title):
            runs, can = _ability(found), _ability(best)
            if runs.gt_per_s < can.gt_per_s and runs.width == can.width:
                seen = f"the link of the GPU {title.split()[0]} has all {runs.width} lanes"
                idle = f"and runs at {runs.gt_per_s:g} of {can.gt_per_s:g} GT/s, as an idle GPU's does"
                yield KnownFact(
                    IDLE, f"{seen}, {idle}: look again under load", line.number, line.text.strip()
                )
                return


def is_link(text: str) -> bool:
    """Whether a line of the kernel's log tells all that is read of a link that limits a device."""
    return "available PCIe bandwidth" in text and _KERNEL.match(text) is not None


class _Tree:
    """What each end of a link can do, the bridge above each device, and the rates of network ports."""

    def __init__(self, lines: tuple[TextLine, ...]) -> None:
        self.titles: dict[str, str] = {}
        self.capable: dict[str, Ability] = {}
        self._bridges: dict[str, str] = {}
        evidence = [line for line in lines if line.kind in EVIDENCE]
        title = ""
        for line in evidence:
            if _DEVICE.match(line.text):
                title = _short(line.text.split()[0])
                self.titles.setdefault(title, line.text)
            elif found := _BELOW.search(line.text):
                self._bridges[found["bus"]] = title
            elif (found := _LINK_CAP.match(line.text)) and title:
                self.capable.setdefault(title, _ability(found))
        self._below: dict[str, Ability] = {}
        for one, can in self.capable.items():
            self._below.setdefault(self.above(one), can)
        nics = sum(_OF_NIC.search(one) is not None for one in self.titles.values())
        self.slowest_port = _slowest_port(evidence, nics)

    def above(self, address: str) -> str:
        """The bridge above a device; "" if it is not shown."""
        return self._bridges.get(address.split(":")[-2], "") if ":" in address else ""

    def below(self, bridge: str) -> str:
        """The title of the first device below a bridge; "" if none is shown."""
        return next((title for one, title in self.titles.items() if self.above(one) == bridge), "")

    def other_end(self, address: str) -> Ability | None:
        """What the other end can do: for a device the bridge above it, for a bridge the first one below."""
        return self.capable.get(self.above(address)) or (self._below.get(address) if address else None)


def _slowest_port(evidence: list[TextLine], nics: int) -> float:
    shown = {one.path: one.content for one in rdma_files(evidence)}
    active = [
        float(rate.split()[0])
        for path, rate in shown.items()
        if path.endswith("/rate") and shown.get(path.replace("/rate", "/state"), "").endswith("ACTIVE")
    ]
    return min(active, default=0.0) if len(active) >= nics else 0.0


def _why(runs: Ability, ends: tuple[Ability, ...]) -> Literal["slot", "link", "open"]:
    """Why a link that runs so is no better, from what both its ends can do."""
    return "open" if len(ends) < 2 else "slot" if runs.reaches(*ends) else "link"


def _of_kernel(found: re.Match[str], position: int, tree: _Tree) -> ShownLink:
    device, port = _short(found["device"]), _short(found["port"])
    runs, best = _ability(found), Ability(float(found["best_speed"]), int(found["best_width"]))
    below = best if tree.above(device) == port else tree.other_end(port)
    ends = tuple(filter(None, (tree.capable.get(port), below)))
    if tree.capable.get(port) == runs:  # whatever is below it
        ends = (runs, runs)
    return ShownLink(
        position=position, address=found["device"], port=found["port"] if port != device else "",
        seen=f"{runs} of {best}", runs=runs, why=_why(runs, ends),
        is_nic=True if found["driver"] in _NIC_DRIVERS else _is_nic(tree.titles.get(device, "")),
        marked=True, slowest_port=tree.slowest_port,
    )  # fmt: skip


def _is_nic(title: str) -> bool | None:
    """Whether a device's title is that of a NIC for RDMA; None where it shows none, or a bridge's."""
    if not _NAMED.match(title) or "PCI bridge" in title:
        return None
    return _OF_NIC.search(title) is not None


def _short(address: str) -> str:
    """An address as lspci prints it on a machine with one domain."""
    return address.removeprefix("0000:")


def _ability(found: re.Match[str]) -> Ability:
    return Ability(float(found["speed"]), int(found["width"]))


def _less(status: re.Match[str], can: re.Match[str] | None, title: str) -> Iterator[str]:
    """The speed and the width at which a link runs, if it can do more. The speed alone shows no fault where
    the device at its lower end is a GPU, or is not shown."""
    marked = bool(status["narrow"])
    narrow = marked or (can is not None and int(status["width"]) < int(can["width"]))
    may_be_idle = _OF_GPU.search(title) is not None or not (_NAMED.match(title) or narrow)
    if status["slow"] and not may_be_idle:
        yield f"{status['speed']} of {can['speed']} GT/s" if can else f"{status['speed']} GT/s"
    if narrow:
        yield f"x{status['width']} of x{can['width']}" if can else f"x{status['width']}, downgraded"
