"""What to do, where the text shows a system that boots an image: it has no packages to install."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import Answer
from gdrkit.facts.modules import PEERMEM
from gdrkit.node import Node
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.immutable_systems import immutable
from gdrkit.report.here import advice_here


def of_platform(answer: Answer, node: Node) -> Answer:
    """An answer whose first step its machine can take."""
    system = immutable(node)
    if system is None or answer.cause is None or not answer.now:
        return answer
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
