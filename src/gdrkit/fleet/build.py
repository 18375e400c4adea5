"""Build the document of a fleet from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec.structs import replace

from gdrkit.fleet import peers
from gdrkit.fleet.cabling import cabling
from gdrkit.fleet.document import SILENT, Change, FleetReport, NodeRow, Standing, TraitMismatch, TraitValue
from gdrkit.fleet.groups import ORDER, fixes, groups
from gdrkit.fleet.hostlist import fold, natural
from gdrkit.fleet.judge import called
from gdrkit.fleet.launcher import is_target_of
from gdrkit.fleet.traits import DRIFTING

# Jobs whose processes take different paths on different nodes: one node that stages slows all of them.

WORDS = {"direct": "direct", "staged": "through host memory", "socket": "TCP", "host-mapped": "host-mapped"}
SHOWS_AS = "the job is as slow as its slowest node"


def job_mismatches(rows: Sequence[NodeRow]) -> tuple[TraitMismatch, ...]:
    """A row for each job whose nodes take different paths, that of most nodes first. A node on which a
    job's path is not known does not count."""
    jobs: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        for job, path in row.jobs.items():
            jobs.setdefault(job, {}).setdefault(path, []).append(row.name)
    return tuple(
        TraitMismatch(
            trait=f"path of {job}", shows_as=SHOWS_AS, versions="",
            values=tuple(
                TraitValue(value=WORDS.get(path, path), count=len(names), nodes=fold(names))
                for path, names in sorted(paths.items(), key=lambda item: (-len(item[1]), item[0]))
            ),
        )
        for job, paths in sorted(jobs.items())
        if len(paths) > 1
    )  # fmt: skip


# What changed between two runs: who got worse or better, who is new or gone, and which versions moved.

Kind = Literal["worse", "better", "other", "new", "gone", "version"]
_KINDS: tuple[Kind, ...] = ("worse", "gone", "new", "other", "better", "version")
"""The order in which changes are listed."""


def changes(before: Iterable[NodeRow], after: Iterable[NodeRow]) -> tuple[Change, ...]:
    """The changes, those of the same kind together, with the nodes that they happened to."""
    old = {row.name: row for row in before}
    new = {row.name: row for row in after}
    found: dict[tuple[Kind, str, str], list[str]] = {}
    for name in old.keys() | new.keys():
        for change in _of_node(old.get(name), new.get(name)):
            found.setdefault(change, []).append(name)
    ordered = sorted(found.items(), key=lambda item: (_KINDS.index(item[0][0]), -len(item[1]), item[0]))
    return tuple(
        Change(kind=kind, before=was, after=now, nodes=fold(nodes), count=len(nodes))
        for (kind, was, now), nodes in ordered
    )


def _of_node(old: NodeRow | None, new: NodeRow | None) -> Iterable[tuple[Kind, str, str]]:
    if old is None or new is None:
        yield ("new", "", _words(new)) if new else ("gone", _words(old), "")
        return
    if _words(old) != _words(new):
        moved = ORDER.index(new.standing) - ORDER.index(old.standing)
        kind: Kind = "worse" if moved < 0 else "better" if moved else "other"
        yield kind, _words(old), _words(new)
    for trait in DRIFTING:
        was, now = old.traits.get(trait), new.traits.get(trait)
        if was and now and was != now:
            yield "version", f"{trait} {was}", now


def _words(row: NodeRow | None) -> str:
    """A standing with its causes: `blocked: peermem-stub`."""
    if row is None:
        return ""
    rails = f" (rail {', '.join(map(str, row.rails))})" if row.rails else ""
    return f"{row.standing}: {', '.join(row.causes)}{rails}" if row.causes else str(row.standing)


def build(
    rows: Iterable[NodeRow],
    *,
    started: str = "",
    seconds: float = 0.0,
    complete: bool = True,
    expect: bool = False,
    since: FleetReport | None = None,
    one_job: bool = False,
    asked: tuple[str, ...] = (),
) -> FleetReport:
    """The document of these nodes. With `expect`, it has what most nodes of each kind share, and every node
    that differs from it; with another run, what changed. Nodes of `one_job` are compared whatever GPUs they
    have. `asked` is what the user named."""
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
        asked=asked,
    )


def _distinct(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """The rows with different names: nodes of one name, as anonymized ones, are called as their files, and
    those of one file name are numbered. A node that was asked keeps the name it was asked by. The name that
    several have stays known."""
    rows = list(rows)
    names = Counter(row.name for row in rows)
    asked = {row.name: row for row in rows if is_target_of(row.target, row.name)}
    taken = {*asked, *(name for name, count in names.items() if count == 1)}
    numbers: Counter[str] = Counter()
    distinct = []
    for row in sorted(rows, key=lambda row: row.target):
        if names[row.name] > 1 and asked.get(row.name) is not row:
            host = row.name if row.standing not in SILENT else row.calls_itself
            name = own = called("", row.target)
            while name in taken:
                numbers[own] += 1
                name = f"{own}-{numbers[own] + 1}"
            taken.add(name)
            row = replace(row, name=name, calls_itself=host)
        distinct.append(row)
    return distinct
