"""`gdr fleet doctor`: judge many nodes, group them by cause, and find the odd ones."""

from __future__ import annotations

import sys
import time

from gdrkit.cli.arguments import Parser, number, status, text_width, write, write_json
from gdrkit.cli.exit import BLOCKED, OK, UNKNOWN, USAGE, WARNING

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from gdrkit.fleet.document import FleetReport, NodeRow


def parser() -> Parser:
    parser = Parser(
        "fleet",
        "Judge many nodes: how many are ready, which ones are not and why, what to fix first, and which\n"
        "nodes differ from their peers.",
        "  gdr fleet doctor bundles/                      a folder of bundles, sosreports and bug reports\n"
        "  gdr fleet doctor bundles/ --group 2            the nodes of the second group\n"
        "  gdr fleet doctor bundles/ --compare gpu1 gpu2  what differs between two nodes\n"
        "  gdr fleet doctor bundles/ --nodes-only         the nodes that need something, for scontrol\n\n"
        "exit codes: 0 nothing to fix, 1 works with warnings, 2 at least one node is blocked, 3 a node\n"
        "gave no answer; 64 and above usage and internal errors",
    )
    parser.add_argument("action", choices=("doctor",), help="judge the nodes")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="folders and files of evidence")
    parser.output()
    parser.add_argument("--csv", action="store_true", help="write one line of CSV for each node")
    parser.add_argument("--junit", action="store_true", help="write JUnit XML, one test case for each node")
    parser.add_argument(
        "--nodes-only", action="store_true", help="print a hostlist of the nodes that need something"
    )
    parser.add_argument("--group", metavar="N", type=number(1, 99_999), help="show the nodes of a group")
    parser.add_argument(
        "--node", metavar="NAME", type=_name, help="show the page of gdr doctor about a node"
    )
    parser.add_argument(
        "--compare", nargs=2, type=_name, metavar=("A", "B"), help="show what differs between two nodes"
    )
    parser.add_argument(
        "--max-blocked",
        metavar="N",
        type=number(0, 99_999),
        default=0,
        help="do not count up to N blocked nodes",
    )
    parser.one_output("--json", "--csv", "--junit", "--nodes-only", "--group", "--node", "--compare")
    return parser


def _name(text: str) -> str:
    """A type for add_argument(): the name of a node."""
    from argparse import ArgumentTypeError

    from gdrkit.fleet.hostlist import is_name

    if not is_name(text):
        raise ArgumentTypeError(f"not the name of a node: {text!r}")
    return text


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    report = _run(options)
    return _show(report, options)


def _run(options: argparse.Namespace) -> FleetReport:
    from gdrkit.fleet.build import build
    from gdrkit.fleet.folder import targets
    from gdrkit.fleet.pool import judge_all
    from gdrkit.fleet.worker import task_of

    rows: list[NodeRow] = []
    tasks = [task_of(path) for path in targets(options.targets)]
    start = time.monotonic()

    def arrived(row: NodeRow) -> None:
        rows.append(row)
        status(f"{len(rows)} of {len(tasks)}")

    judge_all(tasks, arrived)
    status("")
    return build(rows, seconds=time.monotonic() - start)


def _show(report: FleetReport, options: argparse.Namespace) -> int:
    """Print what was asked for; returns the exit code."""
    from gdrkit.fleet import tables, text

    colour, width = sys.stdout.isatty(), text_width()
    if options.group:
        group = next((group for group in report.groups if group.number == options.group), None)
        if group is None:
            return _refused(f"no group {options.group}: there are {len(report.groups)}")
        write(text.group_text(report, group, colour=colour, width=width), styled=colour)
    elif options.compare:
        one, other = (_row(report, name) for name in options.compare)
        if one is None or other is None:
            return _refused(f"no node {options.compare[one is not None]!r} in this run")
        write(text.comparison_text(one, other, colour=colour, width=width), styled=colour)
    elif options.node:
        row = _row(report, options.node)
        if row is None:
            return _refused(f"no node {options.node!r} in this run")
        return _page(row)
    elif options.json:
        write_json(report)
    elif options.csv:
        write(tables.as_csv(report))
    elif options.junit:
        write(tables.as_junit(report))
    elif options.nodes_only:
        write(f"{_in_need(report)}\n")
    else:
        write(text.text(report, colour=colour, width=width), styled=colour)
    return exit_code(report, options.max_blocked)


def _refused(message: str) -> int:
    sys.stderr.write(f"gdr fleet: {message}\n")
    return USAGE


def _row(report: FleetReport, name: str) -> NodeRow | None:
    return next((row for row in report.nodes if name in (row.name, row.target)), None)


def _page(row: NodeRow) -> int:
    """The page of gdr doctor about a node, and its exit code."""
    from gdrkit.cli.doctor import main as doctor

    return doctor(["--", row.target])


def _in_need(report: FleetReport) -> str:
    from gdrkit.fleet.document import Standing
    from gdrkit.fleet.hostlist import fold

    well = (Standing.READY, Standing.IMPOSSIBLE, Standing.WARNINGS)
    return fold(row.name for row in report.nodes if row.standing not in well)


def exit_code(report: FleetReport, max_blocked: int = 0) -> int:
    """That of the worst node: blocked before unknown before warnings. Up to `max_blocked` blocked nodes do
    not count; a node without an answer always does. No node at all is unknown."""
    from gdrkit.fleet.document import Standing

    if report.counts.get(Standing.BLOCKED, 0) > max_blocked:
        return BLOCKED
    silent = (Standing.UNKNOWN, Standing.UNREACHABLE, Standing.UNREADABLE)
    if not report.nodes or any(standing in report.counts for standing in silent):
        return UNKNOWN
    return WARNING if Standing.WARNINGS in report.counts else OK
