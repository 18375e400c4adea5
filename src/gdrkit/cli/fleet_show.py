"""What `gdr fleet doctor` prints of a report, and its exit code."""

from __future__ import annotations

import argparse
import sys

from gdrkit.cli.arguments import colours, text_width, write, write_json
from gdrkit.cli.exit import USAGE
from gdrkit.fleet import runs, tables, text
from gdrkit.fleet.document import UNDECIDED, FleetReport, NodeRow, Standing
from gdrkit.fleet.exit_code import exit_code
from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.launcher import BY_ENGINE

_IN_NEED = (Standing.BLOCKED, *UNDECIDED)


def show(report: FleetReport, options: argparse.Namespace) -> int:
    """Print what was asked for; returns the exit code."""
    if options.group or options.node or options.compare:
        return _part(report, options)
    if options.json:
        write_json(report)
    elif options.csv:
        write(tables.as_csv(report))
    elif options.junit:
        write(tables.as_junit(report))
    elif options.ctrf:
        write_json(tables.as_ctrf(report))
    elif options.nodes_only:
        write(f"{_list_of([row for row in report.nodes if row.standing in _IN_NEED])}\n")
    else:
        colour = colours()
        run = options.run or runs.LAST
        write(text.text(report, colour=colour, width=text_width(), run=run), styled=colour)
    return exit_code(report, options.max_blocked)


def _list_of(rows: list[NodeRow]) -> str:
    """A hostlist for other programs: of nodes whose names mean them and nothing else. Says which are left
    out."""
    from gdrkit.fleet.hostlist import means_one_node
    from gdrkit.fleet.judge import made_up

    listed = [row for row in rows if means_one_node(row.name) and row.name != made_up(row.target)]
    for row in rows:
        if row not in listed:
            sys.stderr.write(f"gdr fleet: left out, {row.name!r} does not name one node: {row.target}\n")
        elif row.calls_itself:
            sys.stderr.write(f"gdr fleet: {row.name} calls itself {row.calls_itself}\n")
    return fold(row.name for row in listed)


def _part(report: FleetReport, options: argparse.Namespace) -> int:
    """Print a group, a node, or what differs between two nodes."""
    colour, width = colours(), text_width()
    if options.group:
        group = next((group for group in report.groups if group.number == options.group), None)
        if group is None:
            return _refused(f"no group {options.group}: there are {len(report.groups)}")
        write(text.group_text(report, group, colour=colour, width=width), styled=colour)
        return exit_code(report, options.max_blocked)
    rows = []
    for name in options.compare or [options.node]:
        row = next((row for row in report.nodes if row.name == name), None)
        if row is None:
            return _refused(f"no node {name!r} in this run")
        rows.append(row)
    if options.node:
        return _page(rows[0])
    write(text.comparison_text(rows[0], rows[1], colour=colour, width=width), styled=colour)
    return exit_code(report, options.max_blocked)


def _refused(message: str, hint: str = "") -> int:
    sys.stderr.write(f"gdr fleet: {message}\n" + (f"  {hint}\n" if hint else ""))
    return USAGE


def _page(row: NodeRow) -> int:
    """The page of gdr doctor about a node, and its exit code."""
    from gdrkit.cli.doctor import main as doctor

    engine = row.target.partition("://")[0]
    if engine in BY_ENGINE:
        return no_page(row.name, engine)
    return doctor(["--", row.target])


def no_page(name: str, engine: str) -> int:
    """Say what to do instead of `--node` for a node whose bundle came through a cluster's engine."""
    return _refused(
        f"no page of {name}: nodes of --{engine} cannot be opened again, their bundles are not kept",
        f"judge it anew: gdr doctor ssh://{name}; or run gdr collect on it, and gdr doctor on its file",
    )
