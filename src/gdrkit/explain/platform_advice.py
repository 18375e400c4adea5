"""What to do, where the text shows a system that boots an image, or a driver that a container builds."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import Answer
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.modules import PEERMEM
from gdrkit.facts.object_owner import owner_of
from gdrkit.formats.regex import regex
from gdrkit.node import Node
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.repair.platforms.means import OPERATOR, means, platform_of
from gdrkit.repair.remedies import remedy_of
from gdrkit.report.here import advice_here, in_guest
from gdrkit.rules.remedy_names import RemedyName


def of_platform(answer: Answer, node: Node) -> Answer:
    """An answer whose first step its machine can take."""
    system = immutable(node)
    if answer.cause is None or not answer.now:
        return answer
    if system is None:
        step = in_guest(node, answer.now[0])
        return replace(answer, now=(step, *answer.now[1:])) if step else _of_container(answer, node)
    of_peermem = PEERMEM in (answer.subject, rule_of(answer.cause).module)
    why = system.cannot.get(Change.LOADING, "") if of_peermem else ""
    if why:
        step = (
            f"Nothing can be installed for it: on {system.title}, {why}. Use dma-buf, which needs no such"
            " module: `gdr fix --steps use-dmabuf` says how there."
        )
    else:
        step = advice_here(node, answer.cause) or answer.now[0]
    return replace(answer, now=(step, *answer.now[1:]))


SIGNED = (
    "Nobody can sign it there: {}. Set driver.usePrecompiled: true, where there is an image for the kernel"
    " of the node, or turn Secure Boot off in its firmware."
)


def _of_container(answer: Answer, node: Node) -> Answer:
    """An answer without steps for a module that the GPU Operator's container builds and nobody can sign."""
    signs = RemedyName.SIGN_MODULE in rule_of(answer.cause or "").remedies
    if not signs or platform_of(node) != OPERATOR:
        return answer
    return replace(answer, now=(SIGNED.format(means(node, remedy_of(RemedyName.SIGN_MODULE)).cannot),))


_EDITS = regex(
    r"\b(?:ClusterPolicy|NicClusterPolicy|NVIDIADriver|useHostMofed|use_ocp_driver_toolkit|IPC_LOCK|kubectl"
    r" (?:patch|apply|edit))\b|\b(?:driver|ofedDriver|operator|rdma)\.\w|\brequest the resource\b"
)
"""What steps name that change an object of a cluster."""


def of_owner(answer: Answer, lines: Iterable[TextLine]) -> Answer:
    """An answer that changes an object of a cluster, with what manages the one that the text shows."""
    if not answer.now or not _EDITS.search(answer.now[0]):
        return answer
    shown = [line for line in lines if line.kind in EVIDENCE]
    owner = owner_of(line.text for line in shown)
    if owner is None:
        return answer
    line = shown[owner.at]
    step = f"{answer.now[0]} By line {line.number}, {owner.sentence}"
    return replace(answer, now=(step, *answer.now[1:]))
