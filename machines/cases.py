"""Cases: a healthy machine, the faults that are planted in it, and the truth about both."""

from __future__ import annotations

import copy
import functools
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

from machines import draw
from machines.faults import BY_NAME, FAULTS, GROUPS
from machines.faults.beside import OF_EFA, OF_NO_NIC
from machines.faults.decoys import DECOY_BY_NAME, DECOYS, Decoy
from machines.faults.fault import Fault
from machines.install import running
from machines.loading import signature
from machines.machine import Machine
from machines.truth import Truth, judge, lowest, of_now, opened

TRIES = 3000
HEALTHY_EVERY = 50
"""One machine in so many has no fault."""
WIDE_EVERY = 11
"""A code that fits most machines is the first fault in one turn of so many: it is a second one often."""
BESIDE_EVERY = 3
"""One machine in so many has a fault of GDRCopy or cuFile more, which hides nothing."""
DECOY_EVERY = 3
"""One machine in so many has a near miss: evidence that looks like a fault of a device, and is none."""
_SPECIAL = ("Spark", "WSL", "Talos")
_WORKING = ("active", "ready", "unknown")


@dataclass
class Case:
    """One machine with its faults. What is true of it is judged when it is first asked for."""

    seed: int
    number: int
    healthy: Machine
    machine: Machine
    faults: tuple[Fault, ...]
    decoys: tuple[Decoy, ...] = ()

    @functools.cached_property
    def healthy_truth(self) -> Truth:
        return judge(self.healthy)

    @functools.cached_property
    def truth(self) -> Truth:
        """The truth about the machine, with all that may be called its cause."""
        truth = judge(self.machine)
        if truth.headline and any(fault.hidden_by(self.faults) for fault in self.faults):
            # what it blocks is not known, so that what is seen may come first
            seen = [fault for fault in self.faults if not fault.hidden_by(self.faults)]
            truth.perhaps |= {code for fault in seen for code in fault.codes}
        if truth.headline and truth.blockers:  # also what stops the path that was open before
            for path in opened(self.healthy):
                truth.headline |= lowest(truth.blockers["nccl"][path])
            blockers = {blocker.code for path in truth.blockers["nccl"].values() for blocker in path}
            for codes in self.named:  # the other names of a fault that is the cause
                if truth.headline & set(codes):
                    truth.headline |= blockers & set(codes)
        return truth

    @property
    def repairable(self) -> bool:
        return all(fault.repairable for fault in self.faults)

    @property
    def named(self) -> tuple[tuple[str, ...], ...]:
        """For each fault, the codes of which one must be reported."""
        return tuple(fault.codes for fault in self.faults)


def cases(seed: int, count: int, only: str = "", number: int | None = None) -> Iterator[Case]:
    """The machines of a seed. Each fault is the first one in its turn, so that none is rare."""
    for at in range(count) if number is None else (number,):
        yield case(seed, at, only)


def case(seed: int, number: int, only: str = "") -> Case:
    """The machine with this number of a seed."""
    source = random.Random(f"{seed} {number} {only}")
    decoys = _decoys(seed, number, only)
    if only in DECOY_BY_NAME:
        return with_faults(seed, number, source, (), decoys=decoys)
    if not only and number % HEALTHY_EVERY == HEALTHY_EVERY - 1:
        return with_faults(seed, number, source, (), decoys=decoys)
    if only in GROUPS:
        first = GROUPS[only][number % len(GROUPS[only])]
    else:
        first = BY_NAME[only] if only else _in_turn(seed, number - number // HEALTHY_EVERY)
    more = 0 if only in BY_NAME else source.choice((0, 0, 0, 1, 1, 2))
    others = source.sample(FAULTS, more * 4)
    if more and number % 2:
        others.insert(0, _wide()[number // 2 % len(_wide())])
    if not only and number % BESIDE_EVERY == 0:
        others.insert(0, OF_NO_NIC[number // BESIDE_EVERY % len(OF_NO_NIC)])
        more += 1
    if only not in BY_NAME and first in OF_EFA:
        others.insert(0, source.choice(OF_EFA))
        more += 1
    return with_faults(seed, number, source, (first, *others), 1 + more, decoys)


def _decoys(seed: int, number: int, only: str) -> tuple[Decoy, ...]:
    """The near misses of a machine, which change nothing else about it."""
    if only in DECOY_BY_NAME:
        return (DECOY_BY_NAME[only],)
    source = random.Random(f"{seed} {number} decoys")
    if only or source.random() * DECOY_EVERY > 1:
        return ()
    return tuple(source.sample(DECOYS, len(DECOYS)))


def _in_turn(seed: int, number: int) -> Fault:
    """Every code comes in its turn, and every fault of a code in its turn after that."""
    wide = {fault.codes[0] for fault in (*_wide(), *OF_NO_NIC)}
    narrow = [code for code in dict.fromkeys(fault.codes[0] for fault in FAULTS) if code not in wide]
    for turn in itertools.count():
        order = [*narrow, *sorted(wide)] if turn % WIDE_EVERY == WIDE_EVERY - 1 else narrow[:]
        if number < len(order):
            break
        number -= len(order)
    random.Random(f"{seed} {turn}").shuffle(order)
    choice = [fault for fault in FAULTS if fault.codes[0] == order[number]]
    return choice[(turn // WIDE_EVERY if order[number] in wide else turn) % len(choice)]


@functools.cache
def _wide() -> tuple[Fault, ...]:
    """The faults that fit two machines of three, and that no other one hides."""
    source = random.Random(0)
    drawn = [draw.machine(number, source) for number in range(60)]
    shown = [fault for fault in FAULTS if not fault.needs]
    return tuple(fault for fault in shown if sum(_agrees(fault, one, one) for one in drawn) > 40)


def with_faults(
    seed: int,
    number: int,
    source: random.Random,
    wanted: tuple[Fault, ...],
    most: int = 2,
    decoys: tuple[Decoy, ...] = (),
) -> Case:
    """A machine with the first of these faults, and with those of the others that fit it, up to `most`.

    It also has the first of these near misses that fits it, with its faults and without."""
    first = wanted[0] if wanted else None
    healthy = _healthy(number, source, first, decoys[0] if len(decoys) == 1 else None)
    decoys = tuple(decoy for decoy in decoys if decoy.fits(healthy))[:1]
    for decoy in decoys:
        decoy.plant(healthy, random.Random(f"{seed} {number} {decoy.name}"))
    machine = copy.deepcopy(healthy)
    chosen: list[Fault] = []
    for fault in wanted:
        if len(chosen) == most or fault in chosen or not _agrees(fault, machine, healthy):
            continue
        if chosen and any(not one.repairable for one in (chosen[0], fault)):
            continue
        changed = copy.deepcopy(machine)
        fault.plant(changed, source)
        if chosen and not (consistent(changed) and _still(changed, [*chosen, fault])):
            continue
        machine = changed
        chosen.append(fault)
    return Case(seed, number, healthy, machine, tuple(chosen), decoys)


def _agrees(fault: Fault, machine: Machine, healthy: Machine) -> bool:
    """Whether a fault can be planted: on the machine as it was drawn, and as it is by now."""
    if fault.platform:
        return machine.platform == fault.platform
    if machine.platform in _SPECIAL or not machine.gpus or not machine.nics or machine.driver is None:
        return False
    if not machine.rdma_driver_loaded or not all(nic.nic for nic in machine.nics):
        return False
    return fault.fits(healthy) and fault.fits(machine)


def _still(machine: Machine, chosen: list[Fault]) -> bool:
    """Whether every fault can still be seen: its own codes are true of the machine with all of them."""
    codes = of_now(machine).codes
    return all(codes & set(fault.codes) for fault in chosen)


def _healthy(number: int, source: random.Random, fault: Fault | None, decoy: Decoy | None = None) -> Machine:
    """A machine that works and that the fault fits, and the near miss."""
    if fault and fault.platform:
        return draw.machine(number, source, fault.platform)
    for _ in range(TRIES):
        drawn = draw.machine(number, source)
        if (fault and not fault.fits(drawn)) or (decoy and not decoy.fits(drawn)):
            continue
        if not consistent(drawn):
            continue
        truth = of_now(drawn)
        if truth.states["nccl"] & set(_WORKING) and (fault is None or _matters(fault, drawn)):
            return drawn
    raise RuntimeError(f"no healthy machine for {fault.name if fault else 'no fault'} in {TRIES} tries")


def _matters(fault: Fault, machine: Machine) -> bool:
    """Whether the fault changes the machine: it may have it by nature."""
    changed = copy.deepcopy(machine)
    fault.plant(changed, random.Random(0))
    return changed != machine


def consistent(machine: Machine) -> bool:
    """Whether every module that is loaded could have been loaded: by its signature, after what it needs."""
    loaded = running(machine)
    names = {module.name for module in loaded}
    return all(signature(machine, module) is None and names >= set(module.needs) for module in loaded)
