"""The metrics of a fleet, from the document of `gdr fleet doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gdrkit.fleet.document import STARTED, FleetReport, Standing, causes_of
from gdrkit.report.metric import Metric, build_info, gauge, info, states


def fleet_metrics(report: FleetReport) -> tuple[Metric, ...]:
    """The metrics of a run."""
    return build_info(), *_run(report), *_nodes(report)


def _run(report: FleetReport) -> Iterator[Metric]:
    yield gauge(
        "gdr_fleet_nodes",
        "Nodes by what they need.",
        ("standing",),
        (((str(one),), float(report.counts.get(one, 0))) for one in Standing),
    )
    yield gauge(
        "gdr_fleet_complete",
        "Whether the run asked every node: 0 if it was interrupted.",
        (),
        [((), float(report.complete))],
    )
    yield info(
        "gdr_fleet_mismatch_info",
        "What must be the same on all nodes of a job, and is not.",
        ("trait",),
        ((mismatch.trait,) for mismatch in report.mismatches),
    )
    yield gauge("gdr_fleet_run_duration_seconds", "How long the run took.", (), [((), report.seconds)])
    if (started := started_at(report)) is not None:
        yield gauge(
            "gdr_fleet_last_run_timestamp_seconds",
            "When the run began, in seconds since 1970.",
            (),
            [((), started)],
        )


def started_at(report: FleetReport) -> float | None:
    """When a run began, in seconds since 1970; None if that is not known."""
    try:
        return datetime.strptime(report.started, STARTED).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _nodes(report: FleetReport) -> Iterator[Metric]:
    yield states(
        "gdr_fleet_node_standing",
        "What each node needs.",
        ("node", "standing"),
        Standing,
        (((row.name,), row.standing) for row in report.nodes),
    )
    yield info(
        "gdr_fleet_node_cause_info",
        "Why a node needs something: codes that block it or are warnings, or the evidence that is missing.",
        ("node", "cause"),
        ((row.name, cause) for row in report.nodes for cause in causes_of(row)),
    )
