"""What the next boot takes away from a node that is ready now, in words."""

from __future__ import annotations

from gdrkit.report.document import NextBootSection, Report
from gdrkit.verdict.path_state import GOOD, State


def lost_at_boot(report: Report) -> NextBootSection | None:
    """The verdict after the next boot if it is worse than now; None also if it is not known."""
    after = report.next_boot
    worse = after is not None and after.state in (State.BLOCKED, State.IMPOSSIBLE)
    return after if worse and report.verdict.state in GOOD else None


def boot_sentence(report: Report, after: NextBootSection) -> str:
    """READY now, BLOCKED after the next boot: what the boot will find. [code]"""
    sure = "" if after.confidence == "certain" else f" ({after.confidence})"
    states = f"{report.verdict.state.upper()} now, {after.state.upper()} after the next boot"
    return f"{states}{sure}: {after.seen}. [{after.cause}]"


def open_at_boot(report: Report) -> str:
    """That it is not known what the next boot leaves of a node that is ready now; "" if it is known."""
    after = report.next_boot
    if after is None or after.state is not State.UNKNOWN or report.verdict.state not in GOOD:
        return ""
    return f"Not known whether this holds after the next boot. What decides it is not known: {after.seen}."


def repair_before_boot(after: NextBootSection, consumer: str = "", target: str = "") -> str:
    """What to do before the reboot."""
    if after.commands:
        return f"Before the reboot: {', then '.join(f'`{command}`' for command in after.commands)}."
    if after.remedies:
        parts = ("gdr fix --steps", ",".join(after.remedies), consumer, target)
        command = " ".join(part for part in parts if part)
        return f"Before the reboot: `{command}` says how."
    if after.advice:
        return f"Before the reboot: {after.advice[:1].lower()}{after.advice[1:]}"
    return f"Do not reboot before this is repaired: `gdr codes {after.cause}` explains how."
