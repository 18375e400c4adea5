"""The metrics of one node, from the document of `gdr doctor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gdrkit.report.document import Report
from gdrkit.report.metric import Metric, build_info, gauge, info, states
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.rule import Status
from gdrkit.verdict.path_state import BEST_FIRST, State

BYTES = 1e9
"""Bytes in a GB of the report."""


class MeasuredPair(Struct, frozen=True, kw_only=True):
    """What a benchmark measured from a GPU through a NIC, one way."""

    gpu: str  # PCI address
    device: str  # RDMA device
    path: str
    gb_per_s: float


def node_metrics(
    report: Report, seen_at: float | None, measured: Iterable[MeasuredPair] = ()
) -> tuple[Metric, ...]:
    """The metrics of a node. `seen_at` is when it was judged, in seconds since 1970; None: not known.

    The states of GPUs and pairs are those of the program that the verdict is about."""
    return (
        build_info(),
        *_node(report, seen_at),
        *_pairs(report, tuple(measured)),
        *_findings(report),
    )


def _node(report: Report, seen_at: float | None) -> Iterator[Metric]:
    node, name = report.node, report.node.hostname
    yield info(
        "gdr_node_info",
        "What was judged: its kernel, and where the evidence is from.",
        ("node", "kernel", "source", "scope"),
        [(name, node.kernel, node.source, node.scope)],
    )
    yield states(
        "gdr_node_state",
        "Whether GPU memory reaches the network directly, for each program.",
        ("node", "consumer", "state"),
        State,
        (((name, consumer), found.state) for consumer, found in report.consumers.items()),
    )
    yield states(
        "gdr_gpu_state",
        "The same for each GPU that counts, at the NIC that is its own.",
        ("node", "consumer", "gpu", "nic", "state"),
        State,
        (
            ((name, report.verdict.consumer, gpu.gpu, gpu.device), gpu.state)
            for gpu in report.gpus
            if gpu.counts
        ),
    )
    if report.expectation is not None:
        yield states(
            "gdr_expectation_met",
            "Whether the node has what was expected of it.",
            ("node", "met"),
            ("yes", "no", "unknown"),
            [((name,), report.expectation.met)],
        )
    if report.next_boot is not None:
        yield states(
            "gdr_next_boot_state",
            "The same after the next boot, for the program that the verdict is about.",
            ("node", "consumer", "state"),
            State,
            [((name, report.verdict.consumer), report.next_boot.state)],
        )
    if seen_at is not None:
        yield gauge(
            "gdr_last_run_timestamp_seconds",
            "When the node was judged, in seconds since 1970.",
            ("node",),
            [((name,), seen_at)],
        )


def _pairs(report: Report, measured: tuple[MeasuredPair, ...]) -> Iterator[Metric]:
    name = report.node.hostname
    yield states(
        "gdr_pair_state",
        "The state of each direct path between a GPU and a NIC, the worse one of sending and receiving.",
        ("node", "consumer", "gpu", "nic", "path", "state"),
        State,
        _pair_states(report),
    )
    yield info(
        "gdr_pair_info",
        "How far a NIC is from a GPU: PIX, PXB, PHB, NODE or SYS.",
        ("node", "gpu", "nic", "distance"),
        ((name, pair.gpu, pair.device, pair.distance) for pair in report.pairs),
    )
    yield gauge(
        "gdr_pair_ceiling_bytes_per_second",
        "What the links between a GPU and the network can carry: the bounds of an estimate.",
        ("node", "gpu", "nic", "bound"),
        (
            ((name, pair.gpu, pair.device, bound), value * BYTES)
            for pair in report.pairs
            if (ceiling := pair.ceiling) is not None
            for bound, value in (("low", ceiling.low_gb_per_s), ("high", ceiling.high_gb_per_s))
        ),
    )
    yield gauge(
        "gdr_pair_measured_bytes_per_second",
        "What a benchmark measured between a GPU and the network.",
        ("node", "gpu", "nic", "path"),
        (((name, one.gpu, one.device, one.path), one.gb_per_s * BYTES) for one in measured),
    )


def _pair_states(report: Report) -> Iterator[tuple[tuple[str, ...], str]]:
    consumer = report.verdict.consumer
    for pair in report.pairs:
        judged = [report.judgements[key] for key in pair.judgements if key in report.judgements]
        for path in DIRECT:
            found = [one.state for one in judged if one.path is path and consumer in one.consumers]
            if found:
                labels = (report.node.hostname, consumer, pair.gpu, pair.device, str(path))
                yield labels, max(found, key=BEST_FIRST.index)


def _findings(report: Report) -> Iterator[Metric]:
    name = report.node.hostname
    yield gauge(
        "gdr_findings",
        "Findings by status.",
        ("node", "status"),
        (((name, str(one)), float(sum(f.status == one for f in report.findings))) for one in Status),
    )
    yield info(
        "gdr_finding_info",
        "Each finding; `gdr codes CODE` explains it.",
        ("node", "code", "layer", "status", "subject"),
        (
            (name, str(finding.code), str(finding.layer), str(finding.status), subject)
            for finding in report.findings
            for subject in (finding.subject, *finding.also)
        ),
    )
