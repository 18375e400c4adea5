"""`gdr fleet doctor`: judge many nodes, group them by cause, and find the odd ones."""

from __future__ import annotations

import argparse
import sys

from gdrkit.cli import fleet_options
from gdrkit.cli.arguments import Parser, colours, note_if_same, number, text_width, write, write_json
from gdrkit.cli.exit import USAGE
from gdrkit.cli.files import shown
from gdrkit.fleet.document import SILENT, UNDECIDED, FleetReport, NodeRow, Standing, causes_of

BLOCKED = "blocked"
CHOICES = {
    BLOCKED: (Standing.BLOCKED,),
    "warnings": (Standing.WARNINGS, Standing.NEXT_BOOT),
    "next-boot": (Standing.NEXT_BOOT,),
    "unknown": UNDECIDED,
}
"""What --nodes-only lists by standing; anything else is a code."""
GROUPS_NAMED = 8
"""Of those there are, where one is asked for that there is not."""


def parser() -> Parser:
    parser = Parser(
        "fleet doctor",
        "Judge many nodes: how many are ready, which ones are not and why, what to fix first, and which "
        "nodes differ from their peers. Nodes are asked over ssh; nothing is installed there. Each run is "
        "kept as a file.",
        "  gdr fleet doctor bundles/                      a folder of bundles, sosreports and bug reports\n"
        "  gdr fleet doctor 'gpu[001-016],login1' --sudo  nodes over ssh, as root\n"
        "  gdr fleet doctor --hosts hosts.txt             the nodes that a file lists\n"
        "  gdr fleet doctor --slurm --partition h100      Slurm's nodes, by srun\n"
        "  gdr fleet doctor --ray http://head:8265        the nodes of a Ray cluster\n"
        "  gdr fleet doctor --kubernetes --print-manifest    the Pods that would be created\n"
        "  gdr fleet doctor --resume                      ask again the nodes that gave no answer\n"
        "  gdr fleet doctor bundles/ --since last         what changed since the last run of the same\n"
        "  gdr fleet doctor bundles/ --expect             also list every node that differs from most\n"
        "  gdr fleet doctor --run last --group 2          the nodes of a group of the last run\n"
        "  gdr fleet doctor --run last --compare gpu1 gpu2    what differs between two nodes\n"
        "  gdr fleet doctor bundles/ --nodes-only         a list of the blocked nodes, for scontrol\n"
        "  gdr fleet doctor --run last --nodes-only gpu-missing    a list of the nodes with a finding\n"
        "  gdr fleet doctor --run last --jsonl            a line of JSON for each node, for a log\n\n"
        f"{fleet_options.EXIT_CODES}",
    )
    fleet_options.nodes(parser, ", or files and folders of evidence")
    fleet_options.clusters(parser)
    parser.add_argument("--sudo", action="store_true", help="collect as root with sudo -n, which never asks")
    parser.add_argument(
        "--fanout",
        metavar="N",
        type=number(1, 1000),
        help="nodes that are asked at once; default: 32, with --ray 1000",
    )
    parser.add_argument(
        "--resume", metavar="RUN", nargs="?", const="last", help="ask again the nodes without an answer"
    )
    fleet_options.comparisons(parser)
    parser.never_with("--run", "--resume", "--hosts", "--slurm", "--ray", "--kubernetes", "--sudo")
    parser.never_with("--print-manifest", "--resume", "--since", "--expect", "--selector", "--context")
    _output_options(parser)
    return parser


def _output_options(parser: Parser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show every group, what differs, and each odd node"
    )
    parser.output()
    parser.add_argument("--csv", action="store_true", help="write one line of CSV for each node")
    parser.add_argument("--junit", action="store_true", help="write JUnit XML, one test case for each node")
    parser.add_argument("--jsonl", action="store_true", help="write one line of JSON for each node")
    parser.add_argument(
        "--nodes-only",
        metavar="WHICH",
        nargs="?",
        const=BLOCKED,
        type=_which,
        help="print a hostlist: the nodes that are blocked (default), those that the next boot blocks "
        "(next-boot), these and those with warnings (warnings), those without an answer (unknown), or those "
        "with a finding of this code",
    )
    parser.add_argument("--group", metavar="N", type=number(1, 99_999), help="show the nodes of a group")
    parser.add_argument(
        "--compare",
        nargs=2,
        type=fleet_options.name,
        metavar=("A", "B"),
        help="show what differs between two nodes",
    )
    parser.one_output(
        "--print-manifest",
        "--verbose",
        "--json",
        "--jsonl",
        "--csv",
        "--junit",
        "--nodes-only",
        "--group",
        "--compare",
    )


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    if options.print_manifest:
        from gdrkit.cli.fleet_run import print_manifest

        return print_manifest(options)
    from gdrkit.cli.fleet_run import report_of

    return _show(report_of(options), options)


def _show(report: FleetReport, options: argparse.Namespace) -> int:
    """Print what was asked for; returns the exit code."""
    from gdrkit.fleet import brief, runs, tables, text
    from gdrkit.fleet.exit_code import exit_code

    if options.group or options.compare:
        return _part(report, options)
    if options.json:
        write_json(report)
    elif options.jsonl:
        write(tables.as_jsonl(report))
    elif options.csv:
        write(tables.as_csv(report))
    elif options.junit:
        write(tables.as_junit(report))
    elif options.nodes_only:
        listed = _list_of(_chosen(report, options.nodes_only))
        write(f"{listed}\n" if listed else "")
    else:
        colour = colours()
        run = options.run or runs.LAST
        if options.run == runs.LAST:
            sys.stderr.write(f"note: the run of {text.local(report.started)}: {_named(report.asked)}\n")
        screen = text.text if options.verbose else brief.brief
        write(screen(report, colour=colour, width=text_width(), run=run), styled=colour)
    return exit_code(report)


def _which(text: str) -> str:
    """A type for add_argument(): a word of CHOICES, or a code."""
    from gdrkit.catalogue import CODES
    from gdrkit.formats.misspelt import did_you_mean

    if text not in CHOICES and text not in CODES:
        meant = did_you_mean(text, (*CHOICES, *CODES))
        raise argparse.ArgumentTypeError(
            f"not blocked, warnings, next-boot, unknown or a code: {text!r}{meant}"
        )
    return text


def _chosen(report: FleetReport, which: str) -> list[NodeRow]:
    """The nodes to list. What drains nodes by their standing must not drain one that is not known; a finding
    is known also of a node whose verdict is not."""
    if which in CHOICES:
        return [row for row in report.nodes if row.standing in CHOICES[which]]
    return [row for row in report.nodes if row.standing not in SILENT and which in causes_of(row)]


def _list_of(rows: list[NodeRow]) -> str:
    """A hostlist for other programs: of nodes whose names mean them and nothing else. Says which are left
    out."""
    from gdrkit.fleet.hostlist import fold, means_one_node
    from gdrkit.fleet.judge import is_of_a_file

    listed = [row for row in rows if means_one_node(row.name) and not is_of_a_file(row)]
    for row in rows:
        if row not in listed:
            sys.stderr.write(f"gdr fleet doctor: left out, {_why_left_out(row)}: {row.target}\n")
        elif row.calls_itself:
            sys.stderr.write(f"gdr fleet doctor: {row.name} calls itself {row.calls_itself}\n")
    return fold(row.name for row in listed)


def _why_left_out(row: NodeRow) -> str:
    """Why a hostlist has no name for a row."""
    from gdrkit.fleet.judge import is_of_shared_name

    if is_of_shared_name(row):
        return f"{row.name!r} is one of several that call themselves {row.calls_itself!r}"
    if row.standing in SILENT:
        return f"{row.name!r} is a file of an unknown node"
    return f"{row.name!r} does not name one node"


def _named(asked: tuple[str, ...]) -> str:
    """The targets of a run, in a few words."""
    first, *others = asked or ("targets not known",)
    return f"{shown(first)}, and {len(others)} more" if others else shown(first)


def _part(report: FleetReport, options: argparse.Namespace) -> int:
    """Print a group, or what differs between two nodes."""
    from gdrkit.fleet import text
    from gdrkit.fleet.exit_code import exit_code

    colour, width = colours(), text_width()
    if options.group:
        group = next((group for group in report.groups if group.number == options.group), None)
        if group is None:
            there = [f"{group.number} ({group.standing})" for group in report.groups]
            more = "" if len(there) <= GROUPS_NAMED else f", and so on to {len(there)}"
            return _refused(f"no group {options.group}; there is {', '.join(there[:GROUPS_NAMED])}{more}")
        write(text.group_text(report, group, colour=colour, width=width), styled=colour)
        return exit_code(report)
    note_if_same(*options.compare)
    rows = []
    for name in options.compare:
        row = next((row for row in report.nodes if row.name == name), None)
        if row is None:
            return _refused(f"no node {name!r} in this run")
        rows.append(row)
    write(text.comparison_text(rows[0], rows[1], colour=colour, width=width), styled=colour)
    return exit_code(report)


def _refused(message: str) -> int:
    sys.stderr.write(f"gdr fleet doctor: {message}\n")
    return USAGE
