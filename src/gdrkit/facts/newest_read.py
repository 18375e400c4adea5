"""How far gdrkit's knowledge reaches: the newest release of each program whose source or library was read.

A claim that rests on releases is *likely* for something newer: what was true of all releases that were read
may have changed. Claims from files, probes and logs keep their own sureness. What a release changes is
with its program, as in programs/nccl/releases.py; the date says how old the knowledge is.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence
from gdrkit.formats.versions import numbers
from gdrkit.node import Node


class NewestRead(Struct, frozen=True):
    """The newest release of one program that was read."""

    subject: str  # the program's title
    release: str
    date: str  # of this release, or of the commit or library that was read; "" where no source shows it
    read: str  # what was read


NEWEST = (
    NewestRead("NCCL", "2.32.3", "2026-09-17", "single files at 12df1a11, and the strings of the library"),
    NewestRead("NVIDIA driver", "615.71.09", "2026-09-09", "single files at 61dcc937; all of 595.45.04"),
    NewestRead("Linux", "6.14", "", "net/core/devmem.c; 6.12.117 for drivers/pci and infiniband"),
    NewestRead("kmod", "33", "", "libkmod; of 34 that Debian builds it without positions"),
    NewestRead("rdma-core", "64.0", "2026-08-20", "linux-rdma/rdma-core 691953d8"),
    NewestRead("DOCA", "3.4.1", "2026-08-17", "the tags of NVIDIA's driver container"),
    NewestRead("UCX", "1.22.0", "2026-08-21", "openucx/ucx 9466d104, after the release"),
    NewestRead("NVSHMEM", "3.5.1", "2025-10-16", "NVIDIA/nvshmem, the newest commit"),
    NewestRead("DeepEP", "2.1.0", "2026-07-14", "deepseek-ai/DeepEP dd758ca"),
    NewestRead("NIXL", "1.4.0", "2026-08-21", "ai-dynamo/nixl"),
    NewestRead("Mooncake", "0.3.12.post1", "2026-08-22", "kvcache-ai/Mooncake, the newest commit"),
    NewestRead("GDRCopy", "2.6", "2026-06-15", "NVIDIA/gdrcopy"),
    NewestRead("perftest", "26.04.17", "2026-07-27", "linux-rdma/perftest"),
)
"""One row a program. Only the rows that `cite_if_newer` is asked about make a claim less sure."""


def newest_read(subject: str) -> NewestRead | None:
    """The row of a program; None if it has none."""
    return next((row for row in NEWEST if row.subject == subject), None)


def is_newer(subject: str, version: str) -> bool:
    """Whether a version is newer than all that were read of a program. False where that is not known."""
    row = newest_read(subject)
    if row is None:
        return False
    known = numbers(row.release)
    return numbers(version)[: len(known)] > known  # 6.14.0-37 is a build of 6.14


def cite_if_newer(node: Node, subject: str, version: str) -> None:
    """Makes the answer that is being computed likely, if it rests on what releases before a version do."""
    row = newest_read(subject)
    if row is not None and is_newer(subject, version):
        text = f"newer than {row.release}, the newest that gdrkit knows"
        node.cite(f"{subject} {version}", text=text, confidence=Confidence.LIKELY)


def table() -> str:
    """All rows as lines: program, release, date and what was read."""
    width = max(len(row.subject) for row in NEWEST)
    longest = max(len(row.release) for row in NEWEST)
    return "".join(
        f"{row.subject:<{width}}  {row.release:<{longest}}  {row.date or 'date unknown':<12}  {row.read}\n"
        for row in NEWEST
    )
