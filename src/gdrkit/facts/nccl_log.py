"""Logs of NCCL that came with a node: the records of their lines, each with its place.

Logs are handed over with a node, under `sos_commands/nccl/`; a node without one was simply given none. What
a log does not print is not denied by it: most lines need NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH.
The forms of the lines, and their sources, are those of nccl_lines.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from gdrkit.facts.supplied import supplied_files
from gdrkit.formats.errors import FormatError
from gdrkit.messages.nccl_records import OVER_NETWORK, Leg, NcclRecord, Version
from gdrkit.node import Node, each_known, fact

R = TypeVar("R")

FOLDER = "sos_commands/nccl"

COMPARED = (
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_DMABUF_ENABLE",
    "NCCL_IB_DISABLE",
    "NCCL_IB_DATA_DIRECT",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_P2P_LEVEL",
    "NCCL_CROSS_NIC",
    "NCCL_BUFFSIZE",
    "NCCL_PROTO",
    "NCCL_ALGO",
)
"""Variables that must be the same on all ranks, or that decide about the direct path. NCCL_IB_HCA and
NCCL_SOCKET_IFNAME may differ with the hosts."""


class LocatedRecord(Struct, Generic[R], frozen=True):
    """What one line says, where it stands, and whose it is."""

    record: R
    line: int
    process: str  # host:pid, "" where the line has no frame


class JobLog(Struct, frozen=True):
    """One log: all that its lines say, in their order."""

    path: str
    records: tuple[LocatedRecord[NcclRecord], ...]

    def all(self, kind: type[R]) -> tuple[LocatedRecord[R], ...]:
        """What it says of one kind."""
        return tuple(found for found in self.records if isinstance(found.record, kind))  # type: ignore[misc]

    @property
    def version(self) -> str:
        """The first version of NCCL's that it names; "" if it names none."""
        return next((found.record.text for found in self.all(Version)), "")

    @property
    def legs(self) -> tuple[LocatedRecord[Leg], ...]:
        """The channel lines over a network, the only ones that prove what it carries."""
        return tuple(leg for leg in self.all(Leg) if leg.record.via.carried in OVER_NETWORK)


@fact
def logs(node: Node) -> tuple[str, ...]:
    """Logs of NCCL that came with this node; () if none was handed over."""
    return supplied_files(node, FOLDER)


@fact
def nccl_log(node: Node, path: str) -> JobLog:
    """One log, taken apart. Raises EvidenceMissing if it is not there, or has no line of NCCL's."""
    return parse(node.text(path), path)


def nccl_logs(node: Node) -> Iterator[JobLog]:
    """The logs that came with a node, but those that turn out to be of something else."""
    return each_known(lambda path: nccl_log(node, path), logs(node))


def parse(text: str, path: str = "") -> JobLog:
    """NCCL's lines in a text, framed by launchers or not. Raises FormatError if nothing in it is NCCL's."""
    from gdrkit.facts.nccl_lines import frame, given, record  # the table of forms is for who has a log

    found: list[LocatedRecord[NcclRecord]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if "NCCL" not in line and "NET/" not in line:
            continue
        who = frame(line)
        said = None if who.cut else record(who.message)
        records = given(line) if said is None else (said,)
        found += (LocatedRecord(one, number, who.process) for one in records)
    if not found:
        raise FormatError("no line of NCCL's that is understood")
    return JobLog(path, tuple(found))
