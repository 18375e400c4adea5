"""NVIDIA Fabric Manager, which sets up NVSwitches: whether its service runs, and which driver it refuses."""

from __future__ import annotations

import re

from gdrkit.evidence import Confidence
from gdrkit.facts.commands import FABRIC_MANAGER
from gdrkit.facts.driver import driver_version
from gdrkit.facts.packages import installed
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_missing

SERVICE = "nvidia-fabricmanager.service"
LOGS = (
    "var/log/fabricmanager.log",  # unless its configuration names another: Fabric Manager User Guide
    "sos_commands/logs/journalctl_--no-pager_--catalog_--boot",
    "sos_commands/logs/journalctl_--no-pager_--boot",
)
STATUSES = (
    "sos_commands/systemd/systemctl_status_nvidia-fabricmanager.service",
    "sos_commands/systemd/systemctl_status_nvidia-fabricmanager",
    "sos_commands/systemd/systemctl_status_--all",
)
"""What `systemctl status` printed, of reports that have no list of units."""
_NAME = rf"^[^\w\n]{{0,9}}{re.escape(SERVICE)}"
_UNIT = regex(rf"{_NAME} +(?P<load>\S+) +(?P<active>\S+) +(?P<sub>\S+)", re.M)
_STATUS = regex(
    rf"{_NAME}(?: - .*)?\n(?: .*\n){{0,9}}? +Loaded: (?P<load>\S+).*\n"
    r"(?: .*\n){0,9}? +Active: (?P<active>\S+)",
    re.M,
)
_RUNS = ("active", "activating", "reloading")
_REFUSAL = regex(
    r"driver interface version (?P<own>\d+[\d.]*\d) don't match with driver version (?P<driver>\d+[\d.]*\d)"
)
"""Source: NVIDIA Fabric Manager, as its users report it: NVIDIA/gpu-operator issue 544."""
_WORKS = regex(r"Successfully configured all the available|\bStarted .*\b[Ff]abric ?[Mm]anager")
"""What Fabric Manager writes once it has set up the switches, and systemd once it runs."""


@fact
def manager_fault(node: Node) -> str:
    """Why Fabric Manager does not set up this machine's switches; "" if it runs, or as far as is known. It
    may run in a container, so that the host has no such service."""
    active = _active(node)
    if active in _RUNS:
        return ""
    if active:
        return f"{SERVICE} is {active}"
    return "Fabric Manager refuses the driver" if _refuses(node) else ""


def _active(node: Node) -> str:
    """The state of its service: active, failed, ...; "" where there is none or none was collected."""
    found, where = _UNIT.search(if_missing("", node.run, FABRIC_MANAGER)), FABRIC_MANAGER.line
    for path in STATUSES:
        if found is None:
            found, where = _STATUS.search(if_missing("", node.text, path)), path
    if found is None:
        return ""
    node.cite(where, text=found[0].strip().splitlines()[-1].strip())
    return found["active"] if found["load"] == "loaded" else ""


def _refuses(node: Node) -> str:
    """The version of a Fabric Manager whose last words are that it refuses the running driver; "" if not."""
    running = if_missing("", driver_version, node)
    for path in LOGS:
        for number, line in reversed([*enumerate(if_missing("", node.text, path).splitlines(), 1)]):
            found = _REFUSAL.search(line)
            if found is not None and found["driver"] == running:
                node.cite(path, text=line, line=number, confidence=Confidence.LIKELY)
                return found["own"]
            if found is not None or _WORKS.search(line):
                break
    return ""


@fact
def other_fabric_manager(node: Node) -> str:
    """The version of the installed Fabric Manager if it is not the running driver's; "" if it is, or if
    either is not known. It refuses to start beside a driver of another version.

    The packages are nvidia-fabricmanager-BRANCH, of Ubuntu, and nvidia-fabricmanager, of NVIDIA's
    repositories. Where none is known, its log decides."""
    running = if_missing("", driver_version, node)
    found = {
        re.split(r"[-+~]", package.version)[0].rpartition(":")[2]
        for name, package in if_missing({}, installed, node).items()
        if re.fullmatch(r"nvidia-fabric-?manager(?:-\d+)?", name)
    }
    if not found:
        return _refuses(node)
    return found.pop() if running and len(found) == 1 and running not in found else ""
