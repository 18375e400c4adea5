"""What the loader says."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence


class Prediction(Struct, frozen=True, kw_only=True):
    """What modprobe would print and return, and what the kernel would log meanwhile."""

    module: str  # as it was asked for, dashes as underscores
    exit_code: int
    loaded: bool  # whether the module would be in the kernel afterwards
    stderr: tuple[str, ...] = ()
    kernel_log: tuple[str, ...] = ()
    reason: str = ""  # the code of what stops it; empty if nothing does
    confidence: Confidence = Confidence.CERTAIN
    unless: tuple[str, ...] = ()  # codes of checks that could not be made: any of them may come first
    assumes: tuple[str, ...] = ()  # modules whose init is taken to return 0, as nobody knows
    certain_lines: int | None = None  # how many lines the kernel logs before the first of them; None: all
    result_unknown: bool = False  # nothing stops it but, perhaps, an init or a command that nobody knows


class LoadRefusal(Struct, frozen=True):
    """Why a module was not loaded."""

    errno: int
    reason: str
