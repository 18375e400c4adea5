"""The run of `gdr fleet doctor`: from its options to the report, with progress on standard error."""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from gdrkit.cli.arguments import write
from gdrkit.cli.fleet_progress import FleetProgress
from gdrkit.evidence.errors import TargetError
from gdrkit.facts.expectation import Supplied
from gdrkit.fleet import runs
from gdrkit.fleet.build import build
from gdrkit.fleet.document import INTERRUPTED, SILENT, STARTED, FleetReport, NodeRow, Standing
from gdrkit.fleet.folder import targets
from gdrkit.fleet.hostlist import NODES_LIMIT
from gdrkit.fleet.judge import without_answer
from gdrkit.fleet.launcher import SLURM, SSH, Launcher, hosts_in, is_target_of, named
from gdrkit.fleet.processes import NOT_ASKED, Ssh
from gdrkit.fleet.run import Run, bundle_folder, judge_files
from gdrkit.fleet.worker import task_of
from gdrkit.formats.misspelt import did_you_mean

REPORT_S = 3e-5
"""Of each node, for its row and its place in the report: 100,000 took 2.6 s on one core of a guest."""


def report_of(options: argparse.Namespace) -> FleetReport:
    """The report of a run, which is kept; or one that was kept. Raises TargetError."""
    if options.run:
        return _again(runs.read(options.run), options)
    resumed = _resumed(options.resume) if options.resume else None
    before = resumed.nodes if resumed else ()
    asked = tuple(dict.fromkeys((*(resumed.asked if resumed else ()), *_asked(options))))
    since = _since(options, asked)
    begun, started = time.monotonic(), datetime.now(UTC).strftime(STARTED)
    paths, launcher, nodes = _sources(options, before, begun + options.timeout)
    again = {*paths, *nodes}
    rows = [row for row in before if _source(row) not in again]
    progress = FleetProgress(len(paths) + len(nodes), "nodes")

    def arrived(row: NodeRow) -> None:
        row = _mistaken(row) if row.name in options.targets else row
        rows.append(row)
        failed = row.standing in SILENT and row.summary not in (INTERRUPTED, NOT_ASKED)
        progress.step(f"{row.name}: {row.standing}: {row.summary}" if failed else "")

    expected = _expected(options)
    report_s = min(options.timeout / 2, REPORT_S * (len(paths) + len(nodes)))
    # Evidence that is here takes no turn of others, so it has a deadline only if the user sets one.
    deadline = begun + options.timeout - report_s if "--timeout" in options.given else math.inf
    complete = not paths or judge_files(paths, arrived, expected, deadline)
    if nodes and complete:
        left_s = min(options.timeout - report_s, deadline - time.monotonic())
        with bundle_folder() as folder:
            run = Run(launcher, folder, sudo=options.sudo, timeout_s=left_s, expected=expected)
            complete = run.ask(nodes, arrived, options.fanout or 0)
        if run.remains:
            progress.end()
            sys.stderr.write(
                f"note: not all was removed from the cluster; to remove it, run:\n  {run.remains}\n"
            )
    progress.end()
    report = build(
        rows,
        started=started,
        seconds=time.monotonic() - begun,
        complete=complete,
        expect=options.expect == "",
        since=since,
        asked=asked,
    )
    _keep(report)
    return report


NO_FILE = "no such file or folder here"
_UNRESOLVED = "could not resolve hostname"
"""What ssh says of a name that is none of a host. Source: OpenSSH ssh.c, resolve_host()."""
_ENTRIES = 1000
"""Files and folders here that a word is compared with."""


def _mistaken(row: NodeRow) -> NodeRow:
    """The row of a word. Where neither a file nor a host has that name, it says so: it may be a mistyped
    path."""
    if row.standing is not Standing.UNREACHABLE or _UNRESOLVED not in row.summary.lower():
        return row
    try:
        with os.scandir() as entries:
            here = [entry.name for entry in islice(entries, _ENTRIES)]
    except OSError:
        here = []
    why = f"{NO_FILE}, so it was asked as a node{did_you_mean(row.name, here)}: {row.summary}"
    error = TargetError(why, "name a file or folder that exists, or a host that ssh knows")
    return without_answer(row.target, row.name, error, Standing.UNREACHABLE)


_OF_TARGETS = ("hosts", "slurm", "partition", "ray", "kubernetes", "namespace", "selector", "context")
"""Options that say which nodes are asked."""


def _asked(options: argparse.Namespace) -> tuple[str, ...]:
    """What the user named, so that two runs of the same targets have the same words: paths are absolute."""
    words = [os.path.abspath(word) if os.path.lexists(word) else word for word in options.targets]
    for name in _OF_TARGETS:
        value = getattr(options, name, None)
        if value not in (None, False) or (name == "ray" and value is not None):
            path = name == "hosts" and value != "-"
            words.append(f"--{name}={os.path.abspath(value) if path else value}")
    return tuple(words)


def _since(
    options: argparse.Namespace, asked: tuple[str, ...], before: FleetReport | None = None
) -> FleetReport | None:
    """The run to compare with; the first one of its targets has none, and says so. Raises TargetError."""
    if not options.since or options.since != runs.LAST:
        return runs.read(options.since) if options.since else None
    found = runs.last_of(asked, before)
    if found is None:
        sys.stderr.write("note: no earlier run of these targets is kept: nothing to compare with\n")
    return found


def _resumed(run: str) -> FleetReport:
    """The run that --resume names. Raises TargetError."""
    try:
        return runs.read(run)
    except TargetError as error:
        raise TargetError(str(error), f"{error.hint}; with targets, write --resume last TARGET") from None


def _again(report: FleetReport, options: argparse.Namespace) -> FleetReport:
    return build(
        report.nodes,
        started=report.started,
        seconds=report.seconds,
        complete=report.complete,
        expect=options.expect == "",
        since=_since(options, report.asked, report),
        asked=report.asked,
    )


def _sources(
    options: argparse.Namespace, before: Sequence[NodeRow], deadline: float
) -> tuple[list[str], Launcher, list[str]]:
    """The evidence that is here, how to ask nodes, and the nodes to ask, which are listed until a deadline;
    without those that answered before.

    Raises TargetError if there is none."""
    paths, names = named_by(options)
    by_engine = options.slurm or options.ray is not None or options.kubernetes
    if before and not paths and not names and not by_engine:
        paths, names = _without_answer(options, before)
    elif not paths and not names and not by_engine:
        raise TargetError(
            "no nodes to judge",
            "name a folder of bundles, nodes as gpu[001-016], --hosts FILE, --slurm, --ray or --kubernetes",
        )
    known = set(map(_source, runs.answered(before)))
    launcher = _engine(options, names, deadline) or Ssh(list(dict.fromkeys(names)))
    here = [path for path in (targets(paths) if paths else []) if task_of(path).target not in known]
    listed = launcher.nodes()
    if len(listed) > NODES_LIMIT:
        raise TargetError(
            f"{len(listed):,} nodes: more than {NODES_LIMIT:,}",
            "name those to ask, or a partition or selector",
        )
    nodes = [node for node in listed if node not in known]
    if not here and not nodes:
        raise TargetError(
            "each of these nodes gave an answer in that run" if before else "there are no nodes"
        )
    return here, launcher, nodes


def _source(row: NodeRow) -> str:
    """The path, or the node that was asked: what evidence calls its node is no more than its word."""
    return row.name if is_target_of(row.target, row.name) else row.target


def named_by(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The paths and the nodes that the options name. Raises TargetError."""
    paths, names = named(options.targets)
    names += _hosts(options.hosts) if options.hosts else []
    return paths, names


def _without_answer(options: argparse.Namespace, before: Sequence[NodeRow]) -> tuple[list[str], list[str]]:
    """Files and nodes that gave no answer, as if the user had named them. Raises TargetError."""
    by_scheme: dict[str, list[NodeRow]] = {}
    for row in before:
        if row.standing in SILENT:
            scheme, found, _ = row.target.partition("://")
            by_scheme.setdefault(scheme if found else "", []).append(row)
    for scheme in ("ray", "kubernetes"):  # its address or context is not kept
        if scheme in by_scheme:
            raise TargetError(
                f"{len(by_scheme[scheme])} nodes without an answer were asked with --{scheme}",
                f"add --{scheme} and what else that run was given",
            )
    if SLURM in by_scheme and SSH in by_scheme:
        raise TargetError(
            f"of the nodes without an answer, {len(by_scheme[SLURM])} were asked with --slurm"
            f" and {len(by_scheme[SSH])} over ssh",
            "name those to ask now, with or without --slurm",
        )
    options.slurm = SLURM in by_scheme
    asked = by_scheme.get(SLURM if options.slurm else SSH, ())
    return [row.target for row in by_scheme.get("", ())], [row.name for row in asked]


def _engine(options: argparse.Namespace, names: Sequence[str], deadline: float) -> Launcher | None:
    """The engine of a cluster that is to ask the nodes."""
    if options.slurm:
        from gdrkit.fleet.slurm import Slurm

        return Slurm(names, options.partition or "", deadline)
    if options.ray is not None:
        from gdrkit.fleet.ray import Ray

        return Ray(options.ray or "", names, deadline)
    if options.kubernetes:
        from gdrkit.fleet.kubernetes import Kubernetes

        return Kubernetes(
            names,
            namespace=options.namespace or "",
            selector=options.selector or "",
            context=options.context or "",
            image=options.image or "",
            deadline=deadline,
        )
    return None


def print_manifest(options: argparse.Namespace) -> int:
    """Print the Pods of a run on the nodes that are named, else on a node called NODE."""
    import yaml

    from gdrkit.fleet import pods

    _, names = named_by(options)
    run = "gdr-fleet-RUN"
    listed = pods.manifest(
        {f"{run}-{n}": node for n, node in enumerate(dict.fromkeys(names or ["NODE"]))},
        run,
        image=options.image or pods.IMAGE,
        seconds=int(options.timeout) + pods.MARGIN_S,
        privileged=options.sudo,
    )
    write(yaml.safe_dump(listed, sort_keys=False))
    return 0


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
