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
from machines.truth import Truth, of_now


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
        if not consistent(usual) or not (truth := of_now(usual)).states["nccl"] & {"active", "ready"}:
            continue
        usual.in_use = ""  # a job may run on some nodes only
        fitting = [fault for fault in FAULTS if _fits(fault, usual, truth)]
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


def _fits(fault: Fault, machine: Machine, truth: Truth) -> bool:
    """Whether the fault can be planted, changes the machine, and can be seen."""
    if fault.platform or not machine.gpus or not machine.nics or not fault.fits(machine):
        return False
    changed = copy.deepcopy(machine)
    fault.plant(changed, random.Random(0))
    return changed != machine and bool(of_now(changed).codes - truth.codes)


def bundles(machines: tuple[Machine, ...], folder: Path) -> Iterator[Path]:
    """Write each machine as a .tar.gz of a bundle."""
    for machine in machines:
        tree = write(machine, folder / "trees")
        packed = folder / f"{tree.name}.tar.gz"
        with tarfile.open(packed, "w:gz", format=tarfile.GNU_FORMAT, compresslevel=6) as archive:
            archive.add(tree, tree.name)
        yield packed


class Incident(NamedTuple):
    """A fleet with several faults at once, and the machines that have each, by fault."""

    machines: tuple[Machine, ...]
    planted: dict[str, tuple[str, ...]]


RAIL, STUB, RACK, DRIVER = "rail", "stub after an upgrade", "rack with ACS on", "another driver"


def incident(seed: int, size: int) -> Incident:
    """A fleet of one kind of which a port is down on one machine, three have a stub after an upgrade of the
    driver, the last quarter is a rack with ACS on, and one machine has another driver."""
    faults = {fault.name: fault for fault in FAULTS}
    rail, stub, acs = (faults[n] for n in ("port down", "stub instead", "redirecting switch port"))
    source = random.Random(f"incident {seed}")
    while True:
        usual = draw.machine(seed, source, "rails")
        truth = of_now(usual)
        works = consistent(usual) and usual.driver and truth.states["nccl"] & {"active", "ready"}
        if works and all(_fits(fault, usual, truth) for fault in (rail, stub, acs)):
            break
    usual.in_use = ""
    names = [f"gpu{number:03d}" for number in range(size)]
    planted = {
        RAIL: (names[1],), STUB: tuple(names[2:5]), DRIVER: (names[5],), RACK: tuple(names[-(size // 4) :]),
    }  # fmt: skip
    machines = []
    for number, name in enumerate(names):
        machine = copy.deepcopy(usual)
        machine.number, machine.name = number, name
        for fault, where in ((rail, RAIL), (stub, STUB), (acs, RACK)):
            if name in planted[where]:
                fault.plant(machine, random.Random(seed))
        if name in planted[DRIVER] and machine.driver:
            machine.driver.version = "595.45.04" if machine.driver.version != "595.45.04" else "590.48.01"
        machines.append(machine)
    return Incident(tuple(machines), planted)
