"""Fleets: machines of one kind that differ as real ones do, and planted ones that are different."""

from __future__ import annotations

import copy
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from machines import draw
from machines.cases import consistent
from machines.changes import renamed
from machines.compose import write
from machines.faults import FAULTS
from machines.faults.fault import Fault
from machines.machine import Machine
from machines.truth import judge


class Fleet(NamedTuple):
    """The machines of a fleet; the planted one has a fault that none of the others has."""

    machines: tuple[Machine, ...]
    planted: str  # name of the odd machine
    fault: str


def fleet(seed: int, size: int) -> Fleet:
    """A fleet of one kind with one odd machine, drawn from a seed."""
    source = random.Random(f"fleet {seed}")
    while True:
        usual = draw.machine(seed, source)
        if not consistent(usual) or not judge(usual).states["nccl"] & {"active", "ready"}:
            continue
        usual.in_use = ""  # a job may run on some nodes only
        fitting = [fault for fault in FAULTS if _fits(fault, usual)]
        if fitting:
            break
    fault = source.choice(fitting)
    odd, renames = source.randrange(size), source.random() < 0.3
    machines = []
    for number in range(size):
        machine = copy.deepcopy(usual)
        machine.number, machine.name = number, f"gpu{number:03d}"
        if number == odd:
            fault.plant(machine, source)
        if renames:  # firmware that numbers buses and devices in its own way
            machine, _ = renamed(machine, source)
        machines.append(machine)
    return Fleet(tuple(machines), machines[odd].name, fault.name)


def _fits(fault: Fault, machine: Machine) -> bool:
    """Whether the fault can be planted, changes the machine, and can be seen."""
    if fault.platform or not machine.gpus or not machine.nics or not fault.fits(machine):
        return False
    changed = copy.deepcopy(machine)
    fault.plant(changed, random.Random(0))
    return changed != machine and bool(judge(changed).codes - judge(machine).codes)


def bundles(machines: tuple[Machine, ...], folder: Path) -> Iterator[Path]:
    """Write each machine as a .tar.gz of a bundle."""
    for machine in machines:
        tree = write(machine, folder / "trees")
        packed = folder / f"{tree.name}.tar.gz"
        with tarfile.open(packed, "w:gz", format=tarfile.GNU_FORMAT, compresslevel=6) as archive:
            archive.add(tree, tree.name)
        yield packed
