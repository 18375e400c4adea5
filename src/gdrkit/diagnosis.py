"""From a host to a report: the path that every command and every test takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gdrkit.evidence import Host, Source
from gdrkit.facts.expectation import Supplied, expectation
from gdrkit.node import Node, if_missing
from gdrkit.programs.leading import leading_program
from gdrkit.report.build import build
from gdrkit.report.document import Ceiling, NextBootSection, PortSection, ProcessInUse, Report
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.path_state import GOOD, State
from gdrkit.verdict.prediction import predicted

if TYPE_CHECKING:
    from gdrkit.repair.remedies.plan import Chain


def diagnose(host: Host, consumer: str = "", expected: Supplied | None = None) -> Report:
    """The report on the node that a host shows; the verdict for `consumer` comes first, or for the program
    that leads there. With what is `expected`, differences are findings."""
    return report_on(node_of(host, expected), consumer)


def report_on(node: Node, consumer: str = "", *, brief: bool = False) -> Report:
    """The report on a node. A brief one, for fleets, has the verdict, findings and plan; it leaves out where
    each fix leads, the ceilings and the prediction of modprobe."""
    consumer = consumer or leading_program(node)
    verdict = shown = judge_node(node, asked=consumer)
    plans: tuple[Chain, ...] = ()
    chains: tuple[Chain, ...] = ()
    if verdict.has_remedy(consumer):
        from gdrkit.repair.remedies.plan import explained, plan, what_then

        plans = plan(node, verdict, consumer)
        chains = () if brief else what_then(node, verdict, consumer)
        shown = explained(node, verdict, consumer, plans)
    report = build(
        node,
        shown,
        consumer,
        chains=chains,
        plans=plans,
        prediction=None if brief else predicted(node),
        ceilings=None if brief else _ceilings,
    )
    if report.verdict.state in GOOD:
        report = replace(report, next_boot=_next_boot(node, verdict, consumer))
    if brief:
        return report
    report = _with_running(report, node)
    if all(one.state is not State.ACTIVE for one in report.judgements.values()):
        return report
    return replace(report, in_use=_in_use(node))


def _next_boot(node: Node, verdict: Verdict, consumer: str) -> NextBootSection | None:
    """Imported here because only nodes that are ready need it."""
    from gdrkit.repair.next_boot import next_boot

    after = next_boot(node, verdict, consumer)
    if after is None:
        return None
    return NextBootSection(
        state=after.state,
        kernel=after.kernel,
        cause=after.cause,
        seen=after.seen,
        remedies=after.steps,
        commands=after.commands,
        advice=after.advice,
        confidence=after.confidence,
    )


def _with_running(report: Report, node: Node) -> Report:
    """The report with the programs that run: their libraries need not be where installed ones are."""
    from gdrkit.jobs.running.of_node import programs

    seen = programs(node)
    consumers = {name: replace(one, running=seen.get(name)) for name, one in report.consumers.items()}
    return replace(report, consumers=consumers)


def node_of(host: Host, expected: Supplied | None = None) -> Node:
    """The node that a host shows, with what is expected of it."""
    node = Node(host)
    if expected is not None:
        node.supply(Source(expected.file), expectation.becomes(expected))
    return node


def ports(node: Node) -> tuple[PortSection, ...]:
    """The ports of a node with their rails; () where its PCI devices are not known."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.facts.rdma import rdma_devices

    if if_missing(None, rdma_devices, node) == ():
        return ()
    from gdrkit.fabric.topo_document import build as topo_document
    from gdrkit.fabric.topology.saved import of_node
    from gdrkit.formats.errors import FormatError

    try:
        found = topo_document("", of_node(node, ask_driver=node.host.source != "live"), "", {})
    except (EvidenceMissing, FormatError):
        return ()
    return tuple(
        PortSection(
            device=net.device, port=net.number, state=net.state, phys_state=net.phys_state,
            rate_gbit_per_s=net.rate_gbit_per_s, link_layer=net.link_layer, netdev=net.netdev,
            rail=found.rail_numbers.get(net.id),
        )
        for net in found.topology.nets
        if net.device
    )  # fmt: skip


def _in_use(node: Node) -> tuple[ProcessInUse, ...]:
    """The processes that use a direct path: looked for only where the evidence shows that there are some."""
    from gdrkit.jobs.running.of_node import direct_processes

    return direct_processes(node)


def job_paths(node: Node) -> dict[str, str]:
    """The path of each job that runs on a node, or ran when it was collected; without those not known."""
    from gdrkit.jobs.running.of_node import paths_of_jobs

    return paths_of_jobs(node)


def _ceilings(node: Node) -> dict[tuple[str, str], Ceiling]:
    """Imported here because only nodes with GPU-NIC pairs need it."""
    from gdrkit.fabric.ceilings.pair_ceilings import ceilings

    return ceilings(node)
