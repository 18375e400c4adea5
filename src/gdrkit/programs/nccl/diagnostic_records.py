"""Records of NCCL's diagnostics: the lines at the level DIAG, which NCCL_RUN_DIAGNOSTICS=1 and
NCCL_RUN_RAS_DIAGNOSTICS=1 print, and which a client of RAS gets.

Source of the formats: NCCL src/diagnostics/*.cc and src/ras/diagnostics*.cc of 2.31.2, and the strings of
libnccl 2.32.3. No line was seen on a machine with GPUs and NICs.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.formats.number_ranges import number_ranges
from gdrkit.formats.plural import plural


class DiagnosticHeader(Struct, frozen=True):
    """`=== NCCL Diagnostics ===`: a report begins."""

    passive: bool  # a report of RAS, which compares the ranks and sends nothing between them


class DiagnosticEnd(Struct, frozen=True):
    """`NCCL diagnostics completed in 2871.6 ms across 16 ranks`: a report ends."""

    passive: bool
    count: int
    peers: bool  # processes, asked through the port of RAS, and not ranks


class DiagnosticsSkipped(Struct, frozen=True):
    """`RAS diagnostics skipped`: RAS is off, so there is no report."""


class DiagnosticLine(Struct, frozen=True):
    """`[OK]   IOMMU mode: ...`: what one check found. OK is the result of a comparison between ranks."""

    check: str
    ok: bool
    text: str  # without the communicator
    communicator: str = ""  # its hash, 0x9d41c07be2a6f318; lines of some checks have none


class RankSet(Struct, frozen=True):
    """`{0,1,2,3,4,5,6,8,...} (N=15)`: NCCL prints at most eight ranks of a set
    (src/ras/diagnostics_checks_common.cc)."""

    shown: tuple[int, ...]
    count: int

    @property
    def whole(self) -> bool:
        return len(self.shown) == self.count

    def __str__(self) -> str:
        if self.whole:
            return f"{'rank' if self.count == 1 else 'ranks'} {number_ranges(self.shown)}"
        return f"{plural(self.count, 'rank')} ({number_ranges(self.shown)}, ...)"


RANKS = r"\{[\d,]{1,90}(?:\.\.\.)?\}(?: \(N=\d{1,7}\))?"
"""The pattern of a set of ranks."""


def rank_set(text: str) -> RankSet | None:
    """The set that a text states; None if it states none."""
    found = re.match(
        r"\{(?P<shown>\d{1,7}(?:,\d{1,7}){0,7})(?P<more>,\.\.\.)?\}(?: \(N=(?P<count>\d{1,7})\))?", text
    )
    if found is None:
        return None
    shown = tuple(dict.fromkeys(map(int, found["shown"].split(","))))
    count = int(found["count"]) if found["count"] else len(shown)
    return RankSet(shown, max(count, len(shown) + bool(found["more"])))
