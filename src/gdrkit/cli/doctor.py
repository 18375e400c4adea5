"""`gdr doctor`: judge a node."""

from __future__ import annotations

import sys

from gdrkit.cli.arguments import (
    Parser,
    colours,
    encoding,
    note_if_same,
    print_notes,
    text_rows,
    text_width,
    write,
    write_json,
)
from gdrkit.cli.exit import STYLES, UNKNOWN
from gdrkit.programs.names import ALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

    from gdrkit.node import Node
    from gdrkit.report.document import Report
    from gdrkit.verdict.findings import Finding


def parser() -> Parser:
    parser = Parser(
        "doctor",
        "Judge a node: does GPU memory reach the network directly, which layer breaks first, and what "
        "would each fix lead to? Reads only; changes nothing. `gdr report` writes the same as an HTML page.",
        "  gdr doctor                             judge this machine\n"
        "  gdr doctor -v                          show the evidence of every finding\n"
        "  gdr doctor bundle.tar.gz --json        judge a bundle, print JSON\n"
        "  gdr doctor ssh://admin@node17 --line   judge a node over ssh, print one line\n"
        "  gdr doctor --require direct            exit with 2 also if the hardware cannot do it\n"
        "  gdr doctor --fail-on gpu-missing       exit with 2 also if a GPU is missing\n"
        "  gdr doctor --expect node.toml          also compare it with a file of gdr expect\n"
        "  gdr doctor --line --exit-style npd --deadline 4    for a monitoring system\n"
        "  gdr doctor a.tar.gz b.tar.gz           judge two nodes, and what must be the same on both\n\n"
        "exit codes: 0 nothing to fix, 1 works with warnings or until the next boot, 2 blocked, 3 unknown, "
        "64 and above usage and internal errors; with --exit-style every error is the caller's unknown",
    )
    parser.target()
    parser.of_more = "gdr fleet doctor"
    parser.add_argument("other", nargs="?", metavar="OTHER", help="a second node, to compare the two")
    parser.output()
    parser.add_argument("--line", action="store_true", help="print host, state and reason in 80 characters")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="show the evidence of every finding, and the picture of the node even if it scrolls",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing; only set the exit code")
    parser.add_argument("--probe", action="store_true", help="also ask the CUDA driver, in a child process")
    parser.consumer(ALL, default="")
    parser.deadline()
    parser.add_argument(
        "--expect", metavar="FILE", help="what the node should have, as TOML; gdr expect writes such a file"
    )
    parser.add_argument("--require", choices=("direct",), help="exit with 2 if a direct path is impossible")
    parser.codes("--fail-on", "exit with 2 also for a finding of this code, unless the verdict is unknown")
    parser.add_argument(
        "--exit-style",
        choices=tuple(STYLES),
        default="gdr",
        help="exit codes that another program expects",
    )
    parser.one_output("--json", "--line", "--verbose", "--quiet")
    return parser


def main(arguments: list[str]) -> int:
    options = parser().parse(arguments)
    parser().need_expectation(options, "--fail-on", options.fail_on)
    if options.other is not None:
        return _pair(options)
    if options.deadline is None:
        return _show(*_judged(options), options)
    from gdrkit.cli.deadline import DeadlineReached, deadline

    try:
        with deadline(options.deadline):
            report, node = _judged(options)
    except DeadlineReached:
        return _too_late(options)
    return _show(report, node, options)


def judged(options: argparse.Namespace) -> Report:
    """The report on the target. Raises TargetError."""
    return _judged(options)[0]


def _judged(options: argparse.Namespace) -> tuple[Report, Node]:
    from gdrkit.cli.expectation import read_expectation
    from gdrkit.diagnosis import node_of, report_on
    from gdrkit.evidence.target import open_host

    expected = None if options.expect is None else read_expectation(options.expect)
    host = open_host(options.target, probe=options.probe, deadline_s=options.deadline)
    print_notes(host)
    node = node_of(host, expected)
    return report_on(node, "" if options.consumer == ALL else options.consumer), node


def _too_late(options: argparse.Namespace) -> int:
    """Say that there is no verdict, on the stream that the caller reads."""
    words = f"unknown: no verdict within {options.deadline} s\n"
    if options.line:
        write(words)
    else:
        sys.stderr.write(f"gdr doctor: {words}")
    return UNKNOWN


def _show(report: Report, node: Node, options: argparse.Namespace) -> int:
    """Print what was asked for; returns the exit code."""
    from gdrkit.evidence.quoting import quoted
    from gdrkit.report.exit_code import exit_code

    if options.quiet:
        pass
    elif options.json:
        from msgspec.structs import replace

        from gdrkit.diagnosis import ports

        write_json(replace(report, ports=ports(node), findings=named(report, options.target)))
    elif options.line:
        from gdrkit.report.line import line

        nagios = options.exit_style == "nagios"
        write(line(report, nagios=nagios, fail_on=options.fail_on) + "\n")
    else:
        from gdrkit.report.text import text

        tty = colours()
        target = quoted(options.target) if options.target else ""
        every = options.consumer == ALL
        shape = {"every": every, "colour": tty, "width": text_width(), "target": target}
        drawn = _picture(node, colour=tty)
        write(text(report, verbose=options.verbose, picture=drawn, rows=text_rows(), **shape), styled=tty)
    return exit_code(report, options.require, options.fail_on)  # gdrkit.cli.main puts it in the style


def named(report: Report, target: str | None) -> tuple[Finding, ...]:
    """The findings, with the target in the commands of their advice, as the terminal has them."""
    from msgspec.structs import replace

    from gdrkit.evidence.quoting import quoted
    from gdrkit.report.answers import naming

    shown = quoted(target) if target else ""
    return tuple(replace(one, advice=naming(one.advice, shown)) for one in report.findings)


def _picture(node: Node, *, colour: bool) -> str:
    """The node in box characters; "" where its devices are not known, or it has neither GPU nor NIC."""
    from gdrkit.evidence import EvidenceMissing
    from gdrkit.facts.pci import gpus
    from gdrkit.facts.unused_nics import judged_nics
    from gdrkit.node import if_missing

    if not if_missing((), gpus, node) and not judged_nics(node):
        return ""
    from gdrkit.fabric.picture import picture
    from gdrkit.fabric.picture_text import picture_text
    from gdrkit.fabric.topology.from_node import topology
    from gdrkit.formats.errors import FormatError

    try:
        drawn = picture(topology(node))
    except (EvidenceMissing, FormatError):
        return ""
    return picture_text(drawn, width=text_width(), encoding=encoding(), colour=colour)


ONE_NODE = (
    "--line",
    "--verbose",
    "--quiet",
    "--probe",
    "--consumer",
    "--expect",
    "--require",
    "--fail-on",
    "--exit-style",
    "--deadline",
)


def _pair(options: argparse.Namespace) -> int:
    """Judge two nodes, and print what differs; 1 also if something differs that must be the same."""
    parser().refuse(options, ONE_NODE, "with two nodes")
    note_if_same(options.target, options.other)
    from gdrkit.evidence.target import open_host
    from gdrkit.fleet.build import build
    from gdrkit.fleet.exit_code import exit_code
    from gdrkit.fleet.judge import judged
    from gdrkit.fleet.text import comparison_text

    rows = []
    for target in (options.target, options.other):
        host = open_host(target)
        print_notes(host)
        rows.append(judged(host, target))
    report = build(rows, one_job=True)
    if options.json:
        write_json(report)
    else:
        colour = colours()
        one, other = sorted(report.nodes, key=lambda row: row.target != options.target)
        write(comparison_text(one, other, colour=colour, width=text_width()), styled=colour)
    problems = report.cabling.problems if report.cabling else ()
    return max(exit_code(report), int(bool(report.mismatches or problems)))
