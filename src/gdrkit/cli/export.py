"""`gdr export`: metrics for Prometheus, as a file for node-exporter's textfile collector."""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.exit import OK, UNKNOWN
from gdrkit.cli.files import STDIN, OutputRefused, read_input, shown, write_output

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from gdrkit.fleet.document import FleetReport
    from gdrkit.report.document import Report
    from gdrkit.report.metric import Metric
    from gdrkit.report.metrics import MeasuredPair

LIMIT_BYTES = 1 << 30
"""Of a document: that of a fleet of 100,000 nodes takes 300 MB."""
LABEL_LIMIT = 200
"""Characters of a label. Prometheus keeps every value that a label ever had."""
MEASURED_LIMIT_BYTES = 8 << 20


def parser() -> Parser:
    parser = Parser(
        "export",
        "Write metrics for Prometheus, in its text format: the state of each GPU, NIC and path, what each "
        "pair can carry, findings, and when the node was judged. TARGET is a target of gdr doctor, or the "
        "JSON of gdr doctor or gdr fleet doctor; - is such JSON on standard input. Reads only; the file is "
        "replaced at once, so that no scrape sees half of it.",
        "  gdr export                                    this machine, to standard output\n"
        "  gdr export -o gdrkit.prom --deadline 60       for node-exporter's textfile collector\n"
        "  gdr export node.tar.gz --measured ib_write_bw.log    with what a benchmark measured there\n"
        "  gdr fleet doctor bundles/ --json | gdr export -      a fleet, one standing for each node\n"
        "  gdr export --run last                         the last run of gdr fleet doctor\n\n"
        "exit codes: 0 the metrics are written, whatever they say; 3 not in time, and an old file stays; "
        "64 and above usage and internal errors",
    )
    parser.target()
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write to a file, also in place of an old one"
    )
    parser.add_argument("--run", metavar="RUN", help="a run of gdr fleet doctor that was kept, such as last")
    parser.add_argument(
        "--measured",
        action="append",
        default=[],
        metavar="FILE",
        help="output of perftest on that node, with --use_cuda",
    )
    parser.add_argument("--expect", metavar="FILE", help="also compare the node with a file of gdr expect")
    parser.add_argument(
        "--openmetrics",
        action="store_true",
        help="write OpenMetrics 1.0 in place of Prometheus's text format",
    )
    parser.consumer()
    parser.deadline()
    parser.set_defaults(probe=False)
    parser.never_with("--run", "--measured", "--expect", "--consumer", "--deadline")
    return parser


OF_A_TARGET = ("--expect", "--consumer", "--deadline")
"""Options of a node that is judged now."""


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.run and options.target:
        parser().error("--run has no effect with TARGET")
    if (found := _metrics(options)) is None:
        sys.stderr.write(f"gdr export: no verdict within {options.deadline} s; nothing is written\n")
        return UNKNOWN
    text = encoded(found, openmetrics=options.openmetrics)
    if options.output is None:
        write(text.decode())
    else:
        _check_replaced(options.output)
        inputs = (options.target, *options.measured)
        write_output(options.output, text, force=True, inputs=inputs)
    return OK


OURS = b"# HELP gdr_"


def _check_replaced(name: str) -> None:
    """Raises OutputRefused if there is a file that another program wrote: this command needs no --force."""
    try:
        if not stat.S_ISREG(os.lstat(name).st_mode):  # to open a FIFO that another user left would hang
            return
        with open(name, "rb") as file:
            head = file.read(len(OURS))
    except (OSError, ValueError):  # whole_file() says what it is
        return
    if head not in (OURS, b""):
        raise OutputRefused(f"{name} exists, and gdr export did not write it", "name another output file")


# -- what is exported -------------------------------------------------------------------------------------


def _metrics(options: argparse.Namespace) -> tuple[Metric, ...] | None:
    """The metrics of what the user named; None if the deadline was reached first. Raises TargetError."""
    from gdrkit.report.document import Report

    if options.run:
        from gdrkit.fleet import runs

        return _of_fleet(runs.read(options.run), options)
    found = _document(options.target)
    if found is None:
        return _of_target(options)
    parser().refuse(options, OF_A_TARGET, "on JSON, which has its verdict already")
    document, written_at = found
    return (
        _of_node(document, written_at, options)
        if isinstance(document, Report)
        else _of_fleet(document, options)
    )


def _of_target(options: argparse.Namespace) -> tuple[Metric, ...] | None:
    from gdrkit.cli.deadline import DeadlineReached, deadline
    from gdrkit.cli.doctor import judged

    try:
        with deadline(options.deadline):
            report = judged(options)
    except DeadlineReached:
        return None
    return (*_of_node(report, time.time(), options), *_jobs(report, options.target))


def _jobs(report: Report, target: str | None) -> tuple[Metric, ...]:
    """The metrics of jobs, where a record of processes shows them."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.evidence.running import record_of
    from gdrkit.facts.commands import RUNNING
    from gdrkit.formats.errors import FormatError
    from gdrkit.jobs.running.judge import document
    from gdrkit.jobs.running.metrics import job_metrics
    from gdrkit.jobs.running.record import decode

    try:
        found = document(decode(record_of(target, RUNNING)))
    except (EvidenceMissing, FormatError):
        return ()
    return job_metrics(report.node.hostname, found)


def _of_node(report: Report, seen_at: float | None, options: argparse.Namespace) -> tuple[Metric, ...]:
    from gdrkit.report.metrics import node_metrics

    return node_metrics(report, seen_at, _measured(report, options.measured))


def _of_fleet(report: FleetReport, options: argparse.Namespace) -> tuple[Metric, ...]:
    from gdrkit.fleet.metrics import fleet_metrics

    parser().refuse(options, ("--measured",), "on a fleet")
    return fleet_metrics(report)


def _document(target: str | None) -> tuple[Report | FleetReport, float | None] | None:
    """A document of ours, and when it was written; None for any other target. Raises TargetError."""
    if target is None or not (target == STDIN or _starts_an_object(target)):
        return None
    import msgspec

    from gdrkit.evidence.errors import TargetError
    from gdrkit.fleet.document import FleetReport
    from gdrkit.report.document import Report

    content = read_input(target, LIMIT_BYTES, "give it the JSON of gdr doctor or gdr fleet doctor")
    try:
        document = msgspec.json.decode(content, type=Report | FleetReport)
    except (ValueError, RecursionError):
        reason = "not the JSON of gdr doctor or gdr fleet doctor"
        raise TargetError(f"{shown(target)}: {reason}", "gdr doctor --json writes it") from None
    return document, None if target == STDIN else os.path.getmtime(target)


def _starts_an_object(name: str) -> bool:
    """Whether a file begins as a JSON object, as no evidence of a node does."""
    try:
        with open(name, "rb") as file:
            return file.read(256).lstrip()[:1] == b"{"
    except (OSError, ValueError):  # open_host() says what it is
        return False


def _measured(report: Report, names: list[str]) -> list[MeasuredPair]:
    """What benchmarks measured, with a note for each run that belongs to no pair. Raises TargetError."""
    if not names:
        return []
    from gdrkit.evidence.errors import TargetError
    from gdrkit.fabric.ceilings.pair_ceilings import measured_pair
    from gdrkit.formats.errors import FormatError
    from gdrkit.formats.perftest import parse_perftest

    pairs = [(pair.gpu, pair.device) for pair in report.pairs]
    found = []
    for name in names:
        try:
            runs = parse_perftest(read_input(name, MEASURED_LIMIT_BYTES).decode("utf-8", "replace"))
        except FormatError as error:
            raise TargetError(f"{shown(name)}: {error}", "give it the output of perftest") from None
        for run in runs:
            if isinstance(pair := measured_pair(run, pairs), str):
                sys.stderr.write(f"note: {shown(name)}: not exported: {pair}\n")
            else:
                found.append(pair)
    return found


# -- the text ---------------------------------------------------------------------------------------------


def encoded(metrics: Iterable[Metric], *, openmetrics: bool = False) -> bytes:
    """Metrics in Prometheus's text format 0.0.4 or in OpenMetrics 1.0, written by its own library. Series
    that would have the same labels are one: Prometheus takes no file with two."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Families(Collector):
        def collect(self) -> Iterable[GaugeMetricFamily]:
            for metric in metrics:
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                series = {tuple(map(_label, labels)): value for labels, value in metric.series}
                for labels, value in series.items():
                    family.add_metric(labels, value)
                if series:
                    yield family

    registry = CollectorRegistry()
    registry.register(Families())
    if openmetrics:
        from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics

        return bytes(generate_openmetrics(registry))  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def _label(value: str) -> str:
    """A value of a label: short, and without what a terminal or a page would obey."""
    from gdrkit.agent.streams import visible

    return visible(value[:LABEL_LIMIT].encode("utf-8", "replace").decode())
