"""Messages of NCCL's diagnostics, and the records that they make; diagnostics.py says what they show.

None of them has a cause: NCCL compares ranks with one another, and what a line means depends on other lines.
Source: NCCL src/diagnostics/*.cc and src/ras/diagnostics*.cc of 2.31.2, and the strings of libnccl 2.32.3.
"""

from __future__ import annotations

import functools

from gdrkit.formats.regex import regex
from gdrkit.messages.message import Match, MessageTemplate
from gdrkit.programs.nccl.diagnostic_records import (
    DiagnosticEnd,
    DiagnosticHeader,
    DiagnosticLine,
    DiagnosticsSkipped,
)

_line = functools.partial(
    MessageTemplate, "nccl", open_end=True, versions="2.31.2 and later",
    source="NCCL src/diagnostics/*.cc, src/ras/diagnostics*.cc",
)  # fmt: skip

CHECKS = (
    "net bw|p2p|GPU inventory|CUDA driver version|ECC|NVLink|NCCL environment|rdma_topo check|IOMMU mode"
    "|IOMMU groups|ATS state|Xid/SXid|NVIDIA graphics driver version|Paths|Net device"
)
"""The checks of 2.31.2 and 2.32.3 and, last, one of a later release."""

_REST = rf"{{check:(?:(?:{CHECKS})(?= |:)|S?Xid \d{{1,5}} detected|transport detect returned)}}{{text:.+}}"
_COMMUNICATOR = regex(r",? in comm (?P<hash>0x[0-9a-f]{1,16})(?:/0x[0-9a-f]{1,16}){0,2}")


def _diagnostic(ok: bool, found: Match) -> DiagnosticLine:
    text = found.values["text"].strip().removeprefix(": ").removeprefix(":").strip()
    communicator = _COMMUNICATOR.search(text)
    if communicator is None:
        return DiagnosticLine(found.values["check"], ok, text)
    text = text[: communicator.start()] + text[communicator.end() :]
    return DiagnosticLine(found.values["check"], ok, text, communicator["hash"])


def _end(found: Match) -> DiagnosticEnd:
    values = found.values
    return DiagnosticEnd(values["report"] == "RAS", int(values["count"]), values["unit"] == "RAS peers")


ROWS = (
    _line(
        rf"[OK]{{:\s{{1,3}}}}{_REST}",
        make=functools.partial(_diagnostic, True),
        sample="h1:1 NCCL DIAG [OK]   IOMMU mode: disabled for 32 relevant device(s) across 16/16 ranks",
    ),
    _line(
        rf"[INFO]{{:\s{{1,3}}}}{_REST}",
        make=functools.partial(_diagnostic, False),
        sample="h1:1 NCCL DIAG [INFO] rdma_topo check: not usable on 16/16 ranks in comm 0x9d (unavailable)",
    ),
    _line(
        "=== {report:RAS|NCCL} Diagnostics ===",
        make=lambda found: DiagnosticHeader(found.values["report"] == "RAS"),
        sample="h1:1 NCCL DIAG === RAS Diagnostics ===",
    ),
    _line(
        r"{report:RAS|NCCL} diagnostics completed in {time:[\d.]{1,12}} ms across {count:\d{1,7}} "
        "{unit:ranks|RAS peers}",
        make=_end,
        sample="h1:1 NCCL DIAG RAS diagnostics completed in 96.7 ms across 16 ranks",
    ),
    _line(
        "RAS diagnostics skipped: NCCL_RAS_ENABLE=0",
        make=lambda found: DiagnosticsSkipped(),
        sample="h1:1 NCCL DIAG INFO RAS diagnostics skipped: NCCL_RAS_ENABLE=0",
    ),
)
