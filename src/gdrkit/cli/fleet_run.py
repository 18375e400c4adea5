"""The run of `gdr fleet doctor`: from its options to the report, with progress on standard error."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from gdrkit.cli.arguments import status
from gdrkit.evidence.errors import TargetError
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet import runs
from gdrkit.fleet.build import build
from gdrkit.fleet.document import SILENT, STARTED, FleetReport, NodeRow
from gdrkit.fleet.folder import targets
from gdrkit.fleet.launcher import Launcher, Ssh, hosts_in, named
from gdrkit.fleet.run import Run, bundle_folder, judge_files

BAR = 30


def report_of(options: argparse.Namespace) -> FleetReport:
    """The report of a run, which is kept; or one that was kept. Raises TargetError."""
    since = runs.read(options.since) if options.since else None
    if options.run:
        return _again(runs.read(options.run), options, since)
    before = runs.read(options.resume).nodes if options.resume else ()
    paths, launcher, nodes = _sources(options, before)
    rows = list(runs.answered(before))
    begun, started = time.monotonic(), datetime.now(UTC).strftime(STARTED)
    progress = _Progress(rows, len(paths) + len(nodes))
    expected = _expected(options)
    complete = not paths or judge_files(paths, progress.arrived, expected)
    if launcher and nodes and complete:
        with bundle_folder() as folder:
            run = Run(
                launcher, folder, sudo=options.sudo, timeout_s=float(options.timeout), expected=expected
            )
            complete = run.ask(nodes, progress.arrived, options.fanout)
    progress.end()
    report = build(
        rows,
        started=started,
        seconds=time.monotonic() - begun,
        complete=complete,
        expect=options.expect == "",
        since=since,
    )
    _keep(report)
    return report


def _again(report: FleetReport, options: argparse.Namespace, since: FleetReport | None) -> FleetReport:
    return build(
        report.nodes,
        started=report.started,
        seconds=report.seconds,
        complete=report.complete,
        expect=options.expect == "",
        since=since,
    )


def _sources(
    options: argparse.Namespace, before: Sequence[NodeRow]
) -> tuple[list[str], Launcher | None, list[str]]:
    """The evidence that is here, how to ask nodes, and the nodes to ask."""
    paths, names = named(options.targets)
    if options.hosts:
        names += _hosts(options.hosts)
    again = [row for row in before if row.standing in SILENT]
    launcher: Launcher
    if options.slurm:
        from gdrkit.fleet.slurm import Slurm

        launcher = Slurm(names, options.partition or "")
    else:
        launcher = Ssh(
            list(dict.fromkeys(names)) or [r.name for r in again if r.target.startswith("ssh://")]
        )
    if not paths and not names and not options.slurm and not again:
        hint = "name a folder of bundles, nodes as gpu[001-016], --hosts FILE or --slurm"
        if options.resume:
            raise TargetError("every node of that run gave an answer", hint)
        raise TargetError("no nodes to judge", hint)
    known = {row.name for row in runs.answered(before)}
    here = targets(paths) if paths else []
    nodes = [] if here and not names and not options.slurm else launcher.nodes()
    return here, launcher, [node for node in nodes if node not in known]


def _hosts(name: str) -> list[str]:
    from gdrkit.cli.files import read_input, shown
    from gdrkit.formats.errors import FormatError

    content = read_input(name, 16 << 20, "name a file with one node or hostlist in a line")
    try:
        return hosts_in(content.decode("utf-8", "replace"))
    except FormatError as error:
        raise TargetError(f"{shown(name)}: {error}", "write one node or hostlist in a line") from None


def _expected(options: argparse.Namespace) -> Supplied | None:
    if not options.expect:
        return None
    from gdrkit.cli.expectation import read_expectation

    return read_expectation(options.expect)


def _keep(report: FleetReport) -> None:
    """Keep a run. That it cannot be kept takes nothing from its result."""
    try:
        runs.keep(report)
    except OSError as error:
        sys.stderr.write(f"note: the run is not kept: {error.strerror}: {runs.folder()}\n")


class _Progress:
    """A bar on a terminal, and a line for each node without an answer as it comes."""

    def __init__(self, rows: list[NodeRow], total: int) -> None:
        self._rows, self._total, self._done, self._silent = rows, total, 0, 0
        self._shown = 0.0
        self._begun = time.monotonic()

    def arrived(self, row: NodeRow) -> None:
        self._rows.append(row)
        self._done += 1
        if row.standing in SILENT:
            self._silent += 1
            status("")
            sys.stderr.write(f"{row.name}: {row.standing}: {row.summary}\n")
            self._shown = 0.0
        if (now := time.monotonic()) - self._shown > 0.1:
            self._shown = now
            self._bar(now - self._begun)

    def _bar(self, seconds: float) -> None:
        filled = BAR * self._done // max(1, self._total)
        silent = f", {self._silent} without an answer" if self._silent else ""
        bar = f"{'#' * filled}{'.' * (BAR - filled)}"
        status(f"[{bar}] {self._done} of {self._total} nodes{silent}, {seconds:.0f} s")

    def end(self) -> None:
        status("")
