"""What a good node of a fleet has, by the majority: the expectations of many nodes as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from gdrkit.formats.expectation import Expectation, ExpectedVersions

T = TypeVar("T", bound=Hashable)


class MajorityExpectation:
    """The values that more than half of the nodes share, each counted among the nodes that show it. `open`
    names those without a majority; a value that no node shows is left out."""

    def __init__(self, nodes: Sequence[Expectation]) -> None:
        self.open: list[str] = []
        self.count = len(nodes)
        models = dict(self._most("gpu_models", (tuple(sorted(n.gpu_models.items())) for n in nodes)) or ())
        gpus = self._most("gpus", (node.gpus for node in nodes))
        self.expectation = Expectation(
            gpus=gpus if gpus is None or gpus >= sum(models.values()) else None,
            nics=self._most("nics", (node.nics for node in nodes)),
            gpu_models=models,
            rails=self._most("rails", (tuple(sorted(n.rails, key=repr)) for n in nodes)) or (),
            firmware=self._each("firmware", nodes, lambda node: node.firmware),
            versions=ExpectedVersions(**self._each("versions", nodes, _versions)),
        )

    def _most(self, what: str, values: Iterable[T | None]) -> T | None:
        """The value that more than half have; None without a majority, which is noted if there are several
        values."""
        counts = Counter(value for value in values if value is not None)
        if not counts:
            return None
        value, most = counts.most_common(1)[0]
        if 2 * most > counts.total():
            return value
        self.open.append(f"{what}: {len(counts)} values, none on more than half of {counts.total()} nodes")
        return None

    def _each(
        self, what: str, nodes: Sequence[Expectation], part: Callable[[Expectation], dict[str, str]]
    ) -> dict[str, str]:
        """The same for each entry of a table."""
        names = dict.fromkeys(name for node in nodes for name in part(node))
        found = {
            name: self._most(f"{what}.{name}", (part(node).get(name) for node in nodes)) for name in names
        }
        return {name: value for name, value in found.items() if value is not None}


def _versions(node: Expectation) -> dict[str, str]:
    values = {name: getattr(node.versions, name) for name in ExpectedVersions.__struct_fields__}
    return {name: value for name, value in values.items() if value is not None}


def by_kind(nodes: Iterable[Expectation]) -> list[list[Expectation]]:
    """The nodes by the models of their GPUs, as `gdr fleet doctor` compares them; the most first.

    The number of GPUs does not count, so that a node that lost one stays among its peers."""
    found: dict[tuple[str, ...], list[Expectation]] = {}
    for node in nodes:
        found.setdefault(tuple(sorted(node.gpu_models)), []).append(node)
    return sorted(found.values(), key=lambda alike: -len(alike))
