"""From a host to a report: the one way through the rooms."""

from __future__ import annotations

from gdrkit.consumers.names import NAMES
from gdrkit.evidence import Host
from gdrkit.node import Node
from gdrkit.repair.remedies.plan import plan, predicted, what_then
from gdrkit.report.build import build
from gdrkit.report.document import Ceiling, Report
from gdrkit.verdict import judge_node


def diagnose(host: Host, consumer: str = NAMES[0]) -> Report:
    """The report of the node that a host gives evidence of; `consumer`'s verdict comes first."""
    node = Node(host)
    verdict = judge_node(node, asked=consumer)
    return build(
        node,
        verdict,
        consumer,
        chains=what_then(node, verdict, consumer),
        plans=plan(node, verdict, consumer),
        prediction=predicted(node),
        ceilings=_ceilings,
    )


def _ceilings(node: Node) -> dict[tuple[str, str], Ceiling]:
    """Only nodes that have pairs pay for the import."""
    from gdrkit.fabric.ceilings.pair_ceilings import ceilings

    return ceilings(node)
