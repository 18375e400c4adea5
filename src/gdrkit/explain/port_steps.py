"""What to do about ports that wait to be set up, or that look for a partner: the steps of their state alone.

The page of `port-down` is about everything else as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.catalogue import rule_of
from gdrkit.explain.explanation import Answer
from gdrkit.explain.first_steps import paragraphs
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.explain.outputs.measured import LINKED
from gdrkit.explain.outputs.readings import port_states
from gdrkit.node import Node
from gdrkit.report.pages import code_page
from gdrkit.rules.rdma_ports import POLLS
from gdrkit.rules.rule import Failed
from gdrkit.verdict.check_results import check_results

CODE = "port-down"
MOST_STEPS = 8


def of_ports(answer: Answer, lines: tuple[TextLine, ...], nodes: Iterable[Node]) -> Answer:
    """An answer about ports, with the steps of their states; one whose cause is a port without a link as it
    is."""
    states = {lines[port.position].number: port.state for port in port_states(lines)}
    shown = [states[line.line] for line in answer.lines[:1] if line.line in states]
    if not _is_about_ports(answer):
        return answer
    steps = dict.fromkeys(step for node in nodes for step in _steps(node))
    linked = not set(shown).isdisjoint(LINKED)
    if not linked:
        polling = tuple(step for step in steps if POLLS in step)
        if polling and answer.cause == CODE:
            return replace(answer, now=polling)
        if not shown or answer.cause is not None:
            return answer
    if answer.cause and not steps and not {*states.values()} <= {"active", *LINKED}:
        return answer
    if len(steps) > 1:
        steps = {f"- {step}": None for step in list(steps)[:MOST_STEPS]}
    return replace(answer, now=tuple(steps) or (tuple(_of_page()) if linked else answer.now))


def _is_about_ports(answer: Answer) -> bool:
    alone = answer.cause is None and [other.code for other in answer.others] == [CODE]
    return answer.cause == CODE or (alone and not answer.now)


def _steps(node: Node) -> Iterator[str]:
    """The advice for each device of which no port is active."""
    for result in check_results(node, (rule_of(CODE),)):
        if isinstance(result.outcome, Failed) and result.outcome.advice:
            yield result.outcome.advice


def _of_page() -> Iterator[str]:
    """What the page says of such a port, where the text does not show its device or its link layer."""
    for step in paragraphs(code_page(CODE)[1]):
        if "in state INIT" in step:
            yield step.partition(". ")[2]
