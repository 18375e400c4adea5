"""`gdr fleet report`: the judgement of many nodes as one HTML file."""

from __future__ import annotations

import sys

from gdrkit.cli import fleet_options
from gdrkit.cli.arguments import Parser, write
from gdrkit.cli.files import STDIN, check_output, read_input, shown, write_output
from gdrkit.evidence.errors import TargetError

DEFAULT_PAGE = "gdr-fleet-report.html"


def parser() -> Parser:
    parser = Parser(
        "fleet report",
        "Write the judgement of many nodes as one HTML file that needs no network: a map of the nodes, the "
        "groups, what to fix first, the odd ones. What gdr fleet doctor asked in another way, such as by "
        "Slurm, is written from the run that it kept.",
        "  gdr fleet report bundles/ -o fleet.html        a folder of bundles, sosreports and bug reports\n"
        "  gdr fleet report --run last -o fleet.html      the last run of gdr fleet doctor\n\n"
        f"{fleet_options.EXIT_CODES}",
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="files and folders of evidence, or a list of nodes, which are asked over ssh",
    )
    fleet_options.comparisons(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help=f"the file to write ({DEFAULT_PAGE})")
    parser.force("--output")
    parser.add_argument(
        "--racks",
        metavar="FILE",
        help="which rack a node is in: lines such as `r01 gpu[1-8]`, or Slurm's topology.conf",
    )
    parser.add_argument(
        "--anonymize", action="store_true", help="replace names of nodes and users, addresses, GUIDs"
    )
    parser.set_defaults(
        hosts=None, slurm=False, ray=None, kubernetes=False, sudo=False, fanout=0, resume=None,
        timeout=fleet_options.TIMEOUT_S,
    )  # fmt: skip
    return parser


def main(arguments: list[str]) -> int:
    """Judge the nodes, write the page, and return the exit code of the judgement.

    Raises OutputRefused for a file that exists, before any node is asked, and TargetError if all targets
    are neither files nor nodes."""
    options = parser().parse(arguments)
    if options.run and options.targets:
        parser().error("--run has no effect with TARGET")
    if not options.run and not options.targets:
        raise TargetError("no nodes to judge", "name evidence or nodes, or the last run: --run last")
    name = options.output or DEFAULT_PAGE
    if name != STDIN:
        check_output(name, force=options.force)
    racks = _racks(options.racks) if options.racks else {}
    from gdrkit.cli.fleet_run import NO_FILE, report_of
    from gdrkit.fleet.exit_code import exit_code
    from gdrkit.html.fleet_page import fleet_page

    report = report_of(options)
    if options.targets and all(row.summary.startswith(NO_FILE) for row in report.nodes):
        first = report.nodes[0]
        raise TargetError(f"{first.name}: {first.summary}", first.advice)
    source = " ".join(options.targets) or f"run {options.run}"
    if options.anonymize:
        from gdrkit.html.anonymous import anonymous_fleet

        (report, racks), source = anonymous_fleet(report, racks), "a fleet"
    content = fleet_page(report, source, racks)
    if name == STDIN:
        write(content)
    else:
        write_output(name, content.encode(), force=options.force, inputs=tuple(options.targets))
        sys.stderr.write(f"{name}: open it in a browser\n")
    return exit_code(report)


def _racks(name: str) -> dict[str, str]:
    """The racks of a file. Raises TargetError for one that cannot be read."""
    from gdrkit.fleet.racks import parse_racks
    from gdrkit.formats.errors import FormatError

    hint = "write a rack and its nodes in a line: r01 gpu[001-008]"
    content = read_input(name, 16 << 20, hint)
    try:
        return parse_racks(content.decode("utf-8", "replace"))
    except FormatError as error:
        raise TargetError(f"{shown(name)}: {error}", hint) from None
