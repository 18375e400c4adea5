"""What is proven of a machine, and without effect on what a text is about."""

from __future__ import annotations

from gdrkit.catalogue import rule_of
from gdrkit.explain.chains import brings_about
from gdrkit.explain.explanation import EstablishedProblem
from gdrkit.explain.failing import is_asked, needs_path
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.log_events import LogEvent
from gdrkit.explain.outputs.used_gpus import gpus_beside
from gdrkit.explain.ranking import FOR_DMABUF, FOR_NETWORK
from gdrkit.explain.subject import Topics
from gdrkit.node import Node
from gdrkit.rules.capabilities import OF_ITS_OWN
from gdrkit.verdict.cells import programs_of

NODE = "node"
"""The subject of a problem that is not about one module, GPU or NIC."""
PASSED = "gpu-passed-through"
"""Why a host has no driver of NVIDIA, and needs none."""
MISREAD, NCCL_LOG = "proof-misread", "nccl log"
"""A problem of who reads a log as a proof, and the subject if it is NCCL's."""


def notes_among(
    proven: tuple[EstablishedProblem, ...],
    node: Node,
    lines: tuple[TextLine, ...],
    all_events: tuple[LogEvent, ...],
    about: Topics,
) -> tuple[EstablishedProblem, ...]:
    """Those of the proven problems of a machine that may have no effect on what the text is about."""
    matters = _matters(proven, all_events, lines)
    beside = gpus_beside(node, lines, proven)
    passed = any(found.code == PASSED for found in proven)
    return tuple(
        found
        for found in proven
        if found.subject in beside
        or (passed and brings_about(PASSED, found.code))
        or _is_note(found, about, matters)
    )


def _matters(
    proven: tuple[EstablishedProblem, ...], all_events: tuple[LogEvent, ...], lines: tuple[TextLine, ...]
) -> frozenset[str]:
    """The codes of what closes one direct path alone and matters all the same: the text closes the other
    path too, or a line reports a failure that it explains. Where neither holds, the other path may serve."""
    closed = {path for found in proven for path in found.blocks}
    if closed.issuperset(OF_ITS_OWN):
        return frozenset(found.code for found in proven)
    alone = [found for found in proven if found.blocks == ("peermem",)]
    failing = {code for event in all_events if not is_asked(event.line) for code in event.codes}
    needed = bool(alone) and needs_path(lines, peermem=True)
    return frozenset(
        found.code
        for found in alone
        if (needed or any(found.code == code or brings_about(found.code, code) for code in failing))
    )


def _is_note(found: EstablishedProblem, about: Topics, matters: frozenset[str]) -> bool:
    """Whether a problem closes one of the two direct paths and may leave the other, or matters for the
    network of a job that is local or crashes, for a log that is read as a proof, or for programs that the
    text is not about."""
    if found.code in FOR_NETWORK:
        return about.one_host or about.crash
    if found.code == MISREAD and found.subject == NCCL_LOG:
        return True
    programs = programs_of(rule_of(found.code).takes(found.subject))
    if programs and programs.isdisjoint(about.programs):
        return not _is_printed(found)
    if found.code in matters:
        return False
    if found.blocks == ("dmabuf",) or found.code in FOR_DMABUF:
        return not about.dmabuf and not _is_printed(found)
    return found.blocks == ("peermem",)


def _is_printed(found: EstablishedProblem) -> bool:
    """Whether a line that reports a failure proves a problem, and not only facts of the machine."""
    return found.subject == NODE and any(found.seen == proof.text for proof in found.proofs)
