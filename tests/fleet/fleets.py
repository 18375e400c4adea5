"""Rows and fleets for the tests of gdrkit.fleet."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from machines.compose import write
from machines.fleet import Fleet, fleet
from machines.install import memory

from gdrkit.fleet.document import NodeRow, Standing
from gdrkit.fleet.worker import row_of, task_of


def row(name: str, standing: Standing = Standing.READY, **fields: object) -> NodeRow:
    """A row with some traits, of a node with eight GPUs unless `traits` says otherwise."""
    traits = {"GPUs": "8 x H100", **fields.pop("traits", {})}  # type: ignore[dict-item]
    return NodeRow(name=name, target=f"{name}.tar.gz", standing=standing, traits=traits, **fields)


@functools.cache
def judged_fleet(seed: int, size: int) -> tuple[Fleet, tuple[NodeRow, ...]]:
    """A fleet of the generator, and the rows of its nodes."""
    drawn = fleet(seed, size)
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        paths = [write(machine, Path(folder)) for machine in drawn.machines]
        return drawn, tuple(row_of(task_of(str(path))) for path in paths)
