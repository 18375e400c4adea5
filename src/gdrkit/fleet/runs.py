"""Runs that are kept as files, each the document of `gdr fleet doctor --json`."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
from collections.abc import Iterable

from gdrkit.agent.output_file import whole_file
from gdrkit.agent.state_folder import state_folder
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.document import SILENT, FleetReport, NodeRow
from gdrkit.fleet.hostlist import NODES_LIMIT, is_name
from gdrkit.fleet.launcher import is_target_of
from gdrkit.formats.errors import FormatError
from gdrkit.formats.json_text import decode, encode
from gdrkit.formats.regex import regex

KEPT = 100
"""Runs that are kept; older ones are removed."""
LIMIT_BYTES = 1 << 30
"""Of a run that is read: 100,000 nodes take 300 MB."""
LAST = "last"
NOT_A_RUN = "not the JSON of gdr fleet doctor"
_NAME = regex(r"(\d{8}T\d{6}Z)(?:-(\d{1,9}))?", re.ASCII)


def folder() -> str:
    """Where runs are kept."""
    return str(state_folder("fleet"))


def names() -> list[str]:
    """The runs that are kept, the newest first."""
    try:
        found = os.listdir(folder())
    except OSError:
        return []
    kept = [n[:-5] for n in found if n.endswith(".json") and _NAME.fullmatch(n[:-5])]
    return sorted(kept, key=_order, reverse=True)


def _order(name: str) -> tuple[str, int]:
    found = _NAME.fullmatch(name)
    return (found[1], int(found[2] or 0)) if found else ("", 0)


def keep(report: FleetReport) -> str:
    """Keep a run; returns its name, which comes after those of all others: where the clock was set back, the
    newest name is counted up. Raises OSError."""
    os.makedirs(folder(), mode=0o700, exist_ok=True)
    status = os.lstat(folder())
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:  # a link has mode 0777
        raise PermissionError(errno.EPERM, "others can write there", folder())
    stem, number = max([(re.sub(r"[-:]", "", report.started), -1), *map(_order, names()[:1])])
    name = stem if number < 0 else f"{stem}-{number + 1}"
    with whole_file(_path(name), 0o600) as file:
        file.write(encode(report))  # a target's name may be no UTF-8
    for old in names()[KEPT:]:
        os.unlink(_path(old))
    return name


def read(run: str) -> FleetReport:
    """A run by its name, `last`, or the name of a file. Raises TargetError."""
    kept = names()
    if run == LAST and not kept:
        raise TargetError("no run is kept yet", "run gdr fleet doctor first")
    path = _path(kept[0] if run == LAST else run) if run == LAST or run in kept else run
    try:
        with open(path, "rb") as file:
            content = file.read(LIMIT_BYTES)
        report = decode(content, FleetReport)
        if len(report.nodes) > NODES_LIMIT or not all(
            is_name(row.name) and _is_target(row) for row in report.nodes
        ):
            raise FormatError(NOT_A_RUN)
        for port in (port for row in report.nodes for port in row.ports):
            for address in port.addresses or ():
                ipaddress.ip_interface(address)
        return report
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else NOT_A_RUN
        hint = f"runs that are kept: {', '.join(kept[:5]) or 'none'}"
        raise TargetError(f"{run}: {reason}", hint) from None


def last_of(asked: tuple[str, ...], before: FleetReport | None = None) -> FleetReport | None:
    """The newest run of the same targets; that before a run, if one is given. None if none is kept.

    The order is that of the names, since clocks are set back; only a run that is not kept has its time."""
    passed = before is None
    by_time = None
    for name in names():
        try:
            found = read(name)
        except TargetError:
            continue  # of an older gdr, or not ours
        if found == before:
            passed, by_time = True, None
        elif found.asked == asked and passed:
            return found
        elif found.asked == asked and before is not None and found.started <= before.started:
            by_time = by_time or found
    return by_time


def _path(name: str) -> str:
    return os.path.join(folder(), f"{name}.json")


def _is_target(row: NodeRow) -> bool:
    """Whether the target of a row is a path, or the node that the row names: who opens a node by its name
    reaches no other."""
    scheme, asked, _ = row.target.partition("://")
    is_path = not asked or "/" in scheme
    return bool(row.target) if is_path else is_target_of(row.target, row.name)


def answered(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """The rows that need not be asked again."""
    return [row for row in rows if row.standing not in SILENT]
