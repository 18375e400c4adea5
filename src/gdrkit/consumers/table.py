"""Every program that gdrkit checks paths for; the first one is the default."""

from __future__ import annotations

import functools
from importlib import import_module

from gdrkit.consumers.consumer import INITIATED, Consumer, Need, Path
from gdrkit.consumers.names import NAMES
from gdrkit.node import Node


def _declared(name: str) -> Consumer:
    """The program that the module of that name declares."""
    module = name.replace("-", "_")
    consumer: Consumer = getattr(import_module(f"gdrkit.consumers.{module}"), module.upper())
    return consumer


CONSUMERS: tuple[Consumer, ...] = tuple(map(_declared, NAMES))
CELLS: tuple[tuple[Path, Consumer], ...] = tuple(
    (path, consumer) for path in Path for consumer in CONSUMERS if path in consumer.paths
)
"""All pairs of a path and a program that uses it."""


@functools.cache
def cells_of(takes: tuple[Need, ...] | frozenset[Need]) -> frozenset[tuple[str, str]]:
    """The cells that do not work without these capabilities."""
    taken = set(takes)
    return frozenset(
        (path.value, consumer.name) for path, consumer in CELLS if not taken.isdisjoint(consumer.needs(path))
    )


def programs_of(takes: tuple[Need, ...] | frozenset[Need]) -> frozenset[str]:
    """The names of the programs that have a path which does not work without these capabilities."""
    return frozenset(consumer for _, consumer in cells_of(takes))


def with_engines(node: Node, takes: tuple[Need, ...]) -> tuple[Need, ...]:
    """What is taken away, and with it the paths of each program whose engine needs it on this node.

    Such a program has no transfer that its engine's GPU kernels do not start: if none can, no path is left.
    """
    more: list[Need] = []
    for consumer in CONSUMERS if takes else ():
        engine = consumer.engine(node) if consumer.engine else None
        if engine is None:
            continue
        closed = {path for path in consumer.paths if not engine.needs(path).isdisjoint(takes)}
        more += consumer.own(*(consumer.paths if closed.issuperset(INITIATED) else closed))
    return tuple(dict.fromkeys((*takes, *more)))


def paths_closed_by(takes: tuple[Need, ...] | frozenset[Need]) -> tuple[str, ...]:
    """The paths of data that some program cannot use without these capabilities, best first."""
    cells = cells_of(takes)
    return tuple(path.value for path in Path if path not in INITIATED and any(c[0] == path for c in cells))


def consumer_of(name: str) -> Consumer:
    """The program of that name."""
    return CONSUMERS[NAMES.index(name)]
