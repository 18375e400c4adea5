"""NCCL logs supplied with a node: the records of their lines, each with its line number.

Logs are supplied in `sos_commands/nccl/`; they are optional. A line that is not in a log proves nothing:
most lines need NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH. log_lines.py parses the lines. Many nodes have
no log: what makes its records, and their types, are imported where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from gdrkit.facts.supplied import supplied_files
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, each_known, fact

if TYPE_CHECKING:
    from gdrkit.programs.nccl.log_records import Failure, Leg, NcclRecord

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
"""Variables that must be equal on all ranks, or that decide about the direct path. NCCL_IB_HCA and
NCCL_SOCKET_IFNAME can differ between hosts."""


class LocatedRecord(Struct, Generic[R], frozen=True):
    """The record of one line, its line number, and its process."""

    record: R
    line: int
    process: str  # host:pid, "" where the line has no frame


class JobLog(Struct, frozen=True):
    """One log: the records of all its lines, in order."""

    path: str
    records: tuple[LocatedRecord[NcclRecord], ...]

    def all(self, kind: type[R]) -> tuple[LocatedRecord[R], ...]:
        """The records of one type."""
        return tuple(found for found in self.records if isinstance(found.record, kind))  # type: ignore[misc]

    def failure(self, call: str, number: int) -> LocatedRecord[Failure] | None:
        """The first failure of a call with this error or status; None if there is none."""
        from gdrkit.programs.nccl.log_records import Failure

        same = (f for f in self.all(Failure) if (f.record.call, f.record.number) == (call, number))
        return next(same, None)

    @property
    def version(self) -> str:
        """The first NCCL version in the log; "" if there is none."""
        from gdrkit.programs.nccl.log_records import Version

        return next((found.record.text for found in self.all(Version)), "")

    @property
    def legs(self) -> tuple[LocatedRecord[Leg], ...]:
        """The channel lines over a network. Only these prove which transport was used."""
        from gdrkit.programs.nccl.log_records import OVER_NETWORK, Leg

        return tuple(leg for leg in self.all(Leg) if leg.record.via.carried in OVER_NETWORK)


@fact
def logs(node: Node) -> tuple[str, ...]:
    """NCCL logs supplied with this node; () if there are none."""
    return supplied_files(node, FOLDER)


@fact
def nccl_log(node: Node, path: str) -> JobLog:
    """One log, parsed. Raises EvidenceMissing if it does not exist or has no line of NCCL."""
    return parse(node.text(path), path)


def nccl_logs(node: Node) -> Iterator[JobLog]:
    """The logs supplied with a node; files without a line of NCCL are skipped."""
    return each_known(lambda path: nccl_log(node, path), logs(node))


def parse(text: str, path: str = "") -> JobLog:
    """NCCL's lines in a text, with or without a launcher's prefix. Raises FormatError if there is none."""
    from gdrkit.programs.nccl.log_lines import frame, given, record  # large tables, needed only with a log

    found: list[LocatedRecord[NcclRecord]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if "NCCL" not in line and "NET/" not in line:
            continue
        framed = frame(line)
        known = None if framed.cut else record(framed.message)
        records = given(line) if known is None else (known,)
        found += (LocatedRecord(one, number, framed.process) for one in records)
    if not found:
        raise FormatError("no known line of NCCL")
    return JobLog(path, tuple(found))
