"""Several faults at once in one fleet: each is found where it was planted, and nowhere else."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from benchmarks.scale import found
from machines.compose import write
from machines.fleet import DRIVER, RACK, RAIL, STUB, incident
from machines.install import memory

from gdrkit.fleet.build import build
from gdrkit.fleet.worker import row_of, task_of


@pytest.mark.parametrize("seed", [0])
def test_every_fault_is_found_where_it_was_planted(seed):
    drawn = incident(seed, 10)
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        rows = [row_of(task_of(str(write(machine, Path(folder))))) for machine in drawn.machines]

    assert found(build(rows)) == {fault: set(names) for fault, names in drawn.planted.items()}
    assert set(drawn.planted) == {RAIL, STUB, RACK, DRIVER}
