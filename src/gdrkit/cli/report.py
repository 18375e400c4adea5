"""`gdr report [TARGET]`: the judgement of a node as one HTML file."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from gdrkit.cli.arguments import Parser, called, note_if_same, print_notes, write
from gdrkit.formats.regex import regex

if TYPE_CHECKING:
    from gdrkit.fabric.ceilings.document import EstimateDocument
    from gdrkit.fabric.topo_document import TopoDocument
    from gdrkit.node import Node
    from gdrkit.report.document import Report


def parser() -> Parser:
    parser = Parser(
        "report",
        "Judge a node as gdr doctor does, and write the answer as one HTML file: the verdict, what to do, "
        "a picture of the node with the path of a byte, every pair, the evidence. It opens anywhere, also "
        "without network and scripts, and prints. Changes nothing else.",
        "  gdr report                          this machine, to gdr-report-HOST.html\n"
        "  gdr report bundle.tar.gz -o a.html  a bundle, to a file of that name\n"
        "  gdr report ssh://admin@node17       a node over ssh\n"
        "  gdr report a.tar.gz b.tar.gz        two nodes, or one before and after: what differs\n"
        "  gdr report job.log node.tar.gz      a log of NCCL, and the cause on one of its nodes\n\n"
        "exit codes: those of gdr doctor; of two nodes the worse one; of a log those of gdr nccl",
    )
    parser.target()
    parser.of_more = "gdr fleet report"
    parser.add_argument(
        "other",
        nargs="?",
        metavar="OTHER",
        help="a second node, or the same one later: what differs; beside a log of NCCL, one of its nodes",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the file to write; - for standard output")
    parser.force("--output")
    parser.add_argument(
        "--anonymize", action="store_true", help="replace names of hosts and users, addresses and GUIDs"
    )
    parser.consumer(default="")
    parser.add_argument(
        "--expect", metavar="FILE", help="what the node should have; gdr expect writes such a file"
    )
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.target is not None and _is_job_log(options.target):
        return _of_job(options)
    if options.other is not None:
        return _compared(options)
    from gdrkit.evidence.quoting import quoted
    from gdrkit.html.node_page import NodeReport, node_page
    from gdrkit.report.exit_code import exit_code

    node, report = _judged(options.target, options)
    source = called(options.target)
    topo, why = _topology(node, source)
    content = node_page(
        NodeReport(
            report=report,
            topo=topo,
            estimate=_estimate(node) if topo else None,
            why_no_picture=why,
            source=source,
            target=quoted(options.target) if options.target else "",
            made=_now(),
        )
    )
    _write(content, report.node.hostname or source, options, (report.node.hostname,))
    return exit_code(report, None)


def _compared(options: argparse.Namespace) -> int:
    """Write the page about two nodes; the exit code is that of the worse one, as in gdr doctor A B."""
    from gdrkit.evidence.quoting import quoted
    from gdrkit.fabric.picture import picture
    from gdrkit.fleet.judge import row_of
    from gdrkit.html.comparison_page import Side, comparison_page, named
    from gdrkit.report.exit_code import exit_code

    note_if_same(options.target, options.other)

    def side(target: str) -> Side:
        node, report = _judged(target, options)
        topo, why = _topology(node, called(target))
        return Side(
            name="", source=called(target), report=report, row=row_of(node, report, target),
            drawn=picture(topo.topology, topo.rail_numbers) if topo else None, why_no_picture=why,
            target=quoted(target),
        )  # fmt: skip

    left, right = named(side(options.target), side(options.other))
    hosts = (left.report.node.hostname, right.report.node.hostname)
    _write(comparison_page(left, right, _now()), f"{left.name}-{right.name}", options, hosts)
    return max(exit_code(left.report, None), exit_code(right.report, None))


HEAD_BYTES = 1 << 18
NCCL_LINE = regex(rb"^[^\n]{0,300} NCCL (?:INFO|WARN) ", re.MULTILINE)


def _is_job_log(name: str) -> bool:
    """Whether a text, which may be packed, has lines of NCCL near its beginning. Source: NCCL src/debug.cc,
    ncclDebugLog()."""
    import os

    from gdrkit.evidence.errors import TargetError
    from gdrkit.formats.errors import FormatError
    from gdrkit.jobs.logs import beginning

    if not os.path.isfile(name):
        return False
    try:
        head = beginning(name)[:HEAD_BYTES]
    except (OSError, TargetError, FormatError):  # open_host() says what it is
        return False
    return b"\0" not in head and NCCL_LINE.search(head) is not None


def _of_job(options: argparse.Namespace) -> int:
    """Write the page about a log of NCCL; the exit code is that of `gdr nccl`."""
    from gdrkit.html.job_page import JobReport, job_page
    from gdrkit.jobs import logs, workers
    from gdrkit.jobs.analyse import analyse
    from gdrkit.jobs.document import document, exit_code

    counted = workers.count(logs.find([options.target]), lambda done, size: None)
    for note in counted.notes:
        sys.stderr.write(f"note: {note}\n")
    found = document(analyse(counted.tally, counted.position))
    node = None if options.other is None else _judged(options.other, options)[1]
    hosts = {rank.host for part in found.jobs for rank in part.ranks}
    other = "" if options.other is None else called(options.other)
    name = called(options.target)
    _write(
        job_page(JobReport(found, name, node, other, _now())),
        name,
        options,
        (*hosts, node.node.hostname if node else ""),
    )
    return exit_code(found)


def _judged(target: str | None, options: argparse.Namespace) -> tuple[Node, Report]:
    """A node and the report on it. Raises TargetError."""
    from gdrkit.cli.expectation import read_expectation
    from gdrkit.diagnosis import node_of, report_on
    from gdrkit.evidence.target import open_host

    expected = None if options.expect is None else read_expectation(options.expect)
    host = open_host(target)
    print_notes(host)
    node = node_of(host, expected)
    return node, report_on(node, options.consumer)


def _topology(node: Node, source: str) -> tuple[TopoDocument | None, str]:
    """The topology of a node, or None and why it is not known."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.fabric.topo_document import build
    from gdrkit.fabric.topology.saved import of_node
    from gdrkit.formats.errors import FormatError

    try:
        return build(source, of_node(node, ask_driver=node.host.source != "live"), "", {}), ""
    except EvidenceMissing as error:
        return None, f"{error.missing.source} ({error.missing.why.value.replace('-', ' ')})"
    except FormatError as error:
        return None, str(error)


def _estimate(node: Node) -> EstimateDocument | None:
    """The ceilings of a node; None if its links are not known."""
    from gdrkit.fabric.ceilings.document import document
    from gdrkit.fabric.ceilings.from_node import node_links
    from gdrkit.node import if_missing

    links = if_missing(None, node_links, node)
    return None if links is None else document(links)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _write(content: str, name: str, options: argparse.Namespace, hosts: tuple[str, ...]) -> None:
    """Raises OutputRefused for a file that exists or cannot be written. `hosts` are on the page."""
    from gdrkit.cli.files import write_output

    if options.anonymize:
        from gdrkit.html.anonymous import anonymous

        content, name = anonymous(content, hosts), "anonymous"
    if options.output == "-":
        write(content)
        return
    output = options.output or f"gdr-report-{_file_name(name)}.html"
    write_output(output, content.encode(), force=options.force, inputs=(options.target, options.other))
    sys.stderr.write(f"{output}: open it in a browser\n")


def _file_name(name: str) -> str:
    """A host's name as part of the name of a file: letters, digits, dots, dashes and underscores."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)[:64].strip("._-") or "node"
