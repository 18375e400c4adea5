"""The verdict on a host, in the form that a journal of `gdr fix` keeps and compares later."""

from __future__ import annotations

from gdrkit.diagnosis import diagnose
from gdrkit.evidence import Host
from gdrkit.repair.apply.journal import VerdictSnapshot


def take_snapshot(host: Host, consumer: str) -> VerdictSnapshot:
    """What doctor says now: states by consumer, findings, and what keeps nvidia-peermem from loading."""
    report = diagnose(host, consumer)
    return VerdictSnapshot(
        states={name: section.state for name, section in report.consumers.items()},
        findings=tuple(sorted(f"{f.status} {f.code} {f.subject}" for f in report.findings)),
        peermem="unknown" if report.modprobe is None else report.modprobe.reason,
    )
