"""`gdr fleet report`: what `gdr fleet doctor` says, as one HTML file."""

from __future__ import annotations

import argparse
import sys

from gdrkit.cli.arguments import write
from gdrkit.cli.files import STDIN, check_output, read_input, shown, write_output
from gdrkit.cli.fleet_run import report_of
from gdrkit.evidence.errors import TargetError
from gdrkit.fleet.exit_code import exit_code

DEFAULT = "gdr-fleet-report.html"


def write_report(options: argparse.Namespace) -> int:
    """Judge the nodes, write the page, and return the exit code of the judgement.

    Raises OutputRefused for a file that exists, before any node is asked."""
    name = options.output or DEFAULT
    if name != STDIN:
        check_output(name, force=options.force)
    racks = _racks(options.racks) if options.racks else {}
    report = report_of(options)
    from gdrkit.html.fleet_page import fleet_page

    source = " ".join(options.targets) or _source(options)
    if options.anonymize:
        from gdrkit.html.anonymous import anonymous_fleet

        (report, racks), source = anonymous_fleet(report, racks), "a fleet"
    content = fleet_page(report, source, racks)
    if name == STDIN:
        write(content)
    else:
        write_output(name, content.encode(), force=options.force, inputs=tuple(options.targets))
        sys.stderr.write(f"{name}: open it in a browser\n")
    return exit_code(report, options.max_blocked)


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


def _source(options: argparse.Namespace) -> str:
    """Where the nodes are from, if no target names them."""
    if options.run:
        return f"run {options.run}"
    if options.slurm:
        return "Slurm"
    if options.kubernetes:
        return "Kubernetes"
    return "Ray" if options.ray is not None else options.hosts or "a run"
