"""Ports that redirect peer-to-peer requests, in a text that has the tree of `lspci -t` as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from gdrkit.explain.explanation import NO_FAILURE_SHOWN, Answer
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.readings import Reading
from gdrkit.formats import lspci_tree
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex

CODE, MOST_PORTS = "acs-redirect", 8
_PORT = regex(r"\s*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) (?:PCI bridge|.{0,40}\bACSCtl:)")
REDIRECTS = regex(r"\s*ACSCtl:.*\bReqRedir\+")
_DRAWN = regex(r"[ |\\+-]*\[[0-9a-f]{4}:[0-9a-f]{2}\]|[ |\\+-]*[|\\+]-")
_GPU = regex(r"NVIDIA (?:Corporation )?(?!.*(?:Audio|USB|NVSwitch))")
_NIC = regex(r"Mellanox|ConnectX|BlueField|NetXtreme|Elastic Fabric|Ethernet|Infiniband", re.IGNORECASE)


def acs_readings(lines: tuple[TextLine, ...]) -> Iterator[Reading]:
    """The redirecting ports on the way between a GPU and a NIC that share a bridge above them, by the line
    of the first."""
    redirecting = tuple(_redirecting(lines))
    between = _between(lines) if redirecting else ()
    ports = [(address, position) for address, position in redirecting if address in between]
    if ports:
        position, names = ports[0][1], ", ".join(address for address, _ in ports)
        one = f"port {names} is between a GPU and a NIC"
        note = one if len(ports) == 1 else f"ports {names} are between GPUs and NICs"
        yield Reading(lines[position], position, (CODE,), note)


def _redirecting(lines: tuple[TextLine, ...]) -> Iterator[tuple[str, int]]:
    """The ports that redirect, each with the position of its bits."""
    port = ""
    for position, line in enumerate(lines):
        if line.kind not in EVIDENCE:
            continue
        if found := _PORT.match(line.text):
            port = found[1] if found[1].count(":") == 2 else f"0000:{found[1]}"
        elif port and REDIRECTS.match(line.text):
            yield port, position
            port = ""


def of_listed_ports(answer: Answer, lines: tuple[TextLine, ...]) -> Answer:
    """An answer about ports that may matter, by their addresses, with what shows which of them do."""
    if [one.code for one in answer.others] != [CODE] or not answer.sentence.startswith(NO_FAILURE_SHOWN):
        return answer
    own = tuple(line for line in lines if line.host == answer.machine)
    ports = list(dict.fromkeys(address for address, _ in _redirecting(own)))
    if not ports:
        return answer
    names = ", ".join(ports[:MOST_PORTS]) + (
        f" and {len(ports) - MOST_PORTS} more" * (len(ports) > MOST_PORTS)
    )
    return replace(
        answer,
        sentence=f"{NO_FAILURE_SHOWN}: ports redirect peer-to-peer requests to the root complex: {names}.",
        now=(f"`lspci -tv` shows which of them are between a GPU and its NIC. {answer.now[0]}",),
    )


def _between(lines: tuple[TextLine, ...]) -> set[str]:
    """The ports below the last bridge that a GPU and a NIC of the drawn tree have in common."""
    drawing = "\n".join(line.text for line in lines if line.kind in EVIDENCE and _DRAWN.match(line.text))
    try:
        tree = lspci_tree.parse(drawing)
    except FormatError:
        return set()
    gpus = [one for one in tree if _GPU.search(one.name)]
    nics = [one for one in tree if _NIC.search(one.name)]
    return {
        address
        for gpu in gpus
        for nic in nics
        if set(gpu.above) & set(nic.above)
        for address in set(gpu.above) ^ set(nic.above)
    }
