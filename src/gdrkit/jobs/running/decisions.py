"""How a row of the decision table writes what it decides."""

from __future__ import annotations

from typing import Literal

from gdrkit.evidence import Confidence
from gdrkit.jobs.running.circumstances import Circumstances
from gdrkit.jobs.running.document import ProcessPath, RunningVerdict

USED = "registered is not used: no source joins a region with the bytes that move"

Decision = RunningVerdict | None


def direct(
    found: Circumstances, by: Literal["dmabuf", "peermem", ""], confidence: Confidence, because: str,
    *evidence: str, limits: tuple[str, ...] = (),
) -> RunningVerdict:  # fmt: skip
    """Registered GPU memory: by dma-buf, by peermem, or by what is not known (empty)."""
    return RunningVerdict(
        path="direct", registered_by=by, confidence=confidence, moving=found.moving, because=because,
        evidence=evidence, limits=(USED, *limits) if by else limits, ask=(),
    )  # fmt: skip


def decided(
    found: Circumstances, path: ProcessPath, because: str, confidence: Confidence, *evidence: str,
    limits: tuple[str, ...] = (),
) -> RunningVerdict:  # fmt: skip
    """Any other path."""
    moving = True if not found.holdings and path in ("socket", "nvlink", "staged") else found.moving
    return RunningVerdict(
        path=path, registered_by="", confidence=confidence, moving=moving, because=because,
        evidence=evidence, limits=limits, ask=(),
    )  # fmt: skip


def amount(number: int) -> str:
    """A number of bytes for a reader, in decimal units."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} bytes"
