"""Build the document of a fleet from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.fleet import peers
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.changes import changes
from gdrkit.fleet.document import FleetReport, NodeRow, Standing
from gdrkit.fleet.groups import fixes, groups
from gdrkit.fleet.hostlist import natural
from gdrkit.fleet.job_ways import job_mismatches
from gdrkit.fleet.judge import called
from gdrkit.fleet.launcher import is_target_of


def build(
    rows: Iterable[NodeRow],
    *,
    started: str = "",
    seconds: float = 0.0,
    complete: bool = True,
    expect: bool = False,
    since: FleetReport | None = None,
    one_job: bool = False,
) -> FleetReport:
    """The document of these nodes. With `expect`, it has what most nodes of each kind share, and every node
    that differs from it; with another run, what changed. Nodes of
    `one_job` are compared whatever GPUs they have."""
    nodes = tuple(sorted(_distinct(rows), key=lambda row: natural(row.name)))
    counts = Counter(row.standing for row in nodes)
    by_kind = {"": list(nodes)} if one_job else peers.kinds(nodes)
    return FleetReport(
        started=started,
        seconds=round(seconds, 1),
        complete=complete,
        counts={standing: counts[standing] for standing in Standing if counts[standing]},
        groups=groups(nodes),
        fixes=fixes(nodes),
        drift=peers.drift(by_kind),
        mismatches=(*job_mismatches(nodes), *peers.mismatches(by_kind)),
        odd=peers.odd(by_kind, all_differences=expect),
        expected=peers.learned(by_kind) if expect else (),
        nodes=nodes,
        since=since.started if since else "",
        changes=changes(since.nodes, nodes) if since else (),
        cabling=cabling(nodes),
    )


def _distinct(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """The rows with different names: nodes of one name, as anonymized ones, are called as their files, and
    those of one file name are numbered. A node that was asked keeps the name it was asked by."""
    rows = list(rows)
    names = Counter(row.name for row in rows)
    asked = {row.name: row for row in rows if is_target_of(row.target, row.name)}
    taken = {*asked, *(name for name, count in names.items() if count == 1)}
    numbers: Counter[str] = Counter()
    distinct = []
    for row in sorted(rows, key=lambda row: row.target):
        if names[row.name] > 1 and asked.get(row.name) is not row:
            name = own = called("", row.target)
            while name in taken:
                numbers[own] += 1
                name = f"{own}-{numbers[own] + 1}"
            taken.add(name)
            row = replace(row, name=name)
        distinct.append(row)
    return distinct
