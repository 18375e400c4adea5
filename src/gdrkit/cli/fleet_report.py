"""`gdr fleet report`: what `gdr fleet doctor` says, as one HTML file."""

from __future__ import annotations

import argparse
import sys

from gdrkit.cli.arguments import write
from gdrkit.cli.files import STDIN, check_output, write_output
from gdrkit.cli.fleet_run import report_of
from gdrkit.fleet.exit_code import exit_code

DEFAULT = "gdr-fleet-report.html"


def write_report(options: argparse.Namespace) -> int:
    """Judge the nodes, write the page, and return the exit code of the judgement.

    Raises OutputRefused for a file that exists, before any node is asked."""
    name = options.output or DEFAULT
    if name != STDIN:
        check_output(name, force=options.force)
    report = report_of(options)
    from gdrkit.html.fleet_page import fleet_page

    content = fleet_page(report, " ".join(options.targets) or _source(options))
    if name == STDIN:
        write(content)
    else:
        write_output(name, content.encode(), force=options.force, inputs=tuple(options.targets))
        sys.stderr.write(f"{name}: open it in a browser\n")
    return exit_code(report, options.max_blocked)


def _source(options: argparse.Namespace) -> str:
    """Where the nodes are from, if no target names them."""
    if options.run:
        return f"run {options.run}"
    if options.slurm:
        return "Slurm"
    if options.kubernetes:
        return "Kubernetes"
    return "Ray" if options.ray is not None else options.hosts or "a run"
