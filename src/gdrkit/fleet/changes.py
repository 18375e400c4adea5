"""What changed between two runs: who got worse or better, who is new or gone, and which versions moved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from gdrkit.fleet.document import Change, NodeRow
from gdrkit.fleet.groups import ORDER
from gdrkit.fleet.hostlist import fold
from gdrkit.fleet.traits import DRIFTING

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
