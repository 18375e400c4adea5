"""Which paths of which programs a lost capability closes: the cells of the matrix."""

from __future__ import annotations

import functools

from gdrkit.catalogue import every_consumer
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer
from gdrkit.rules.capabilities import INITIATED, Need, Path


@functools.cache
def every_cell() -> tuple[tuple[Path, Consumer], ...]:
    """All pairs of a path and a program that uses it."""
    return tuple((path, one) for path in Path for one in every_consumer() if path in one.paths)


@functools.cache
def cells_of(takes: tuple[Need, ...] | frozenset[Need]) -> frozenset[tuple[str, str]]:
    """The cells that do not work without these capabilities."""
    taken = set(takes)
    return frozenset(
        (path.value, consumer.name)
        for path, consumer in every_cell()
        if not taken.isdisjoint(consumer.needs(path))
    )


def programs_of(takes: tuple[Need, ...] | frozenset[Need]) -> frozenset[str]:
    """The names of the programs that have a path which does not work without these capabilities."""
    return frozenset(consumer for _, consumer in cells_of(takes))


def with_engines(node: Node, takes: tuple[Need, ...]) -> tuple[Need, ...]:
    """What is taken away, and with it the paths of each program whose engine needs it on this node.

    Such a program has no transfer that its engine's GPU kernels do not start: if none can, no path is left.
    """
    more: list[Need] = []
    for consumer in every_consumer() if takes else ():
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
