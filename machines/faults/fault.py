"""What a fault is."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from machines.machine import Machine

Plant = Callable[[Machine, random.Random], None]


def anywhere(machine: Machine) -> bool:
    """The fault fits every machine."""
    return True


class Fault(NamedTuple):
    """One way in which a machine is broken, slowed down or worth a note."""

    name: str
    codes: tuple[str, ...]  # one of these names it; the first is its own
    plant: Plant
    fits: Callable[[Machine], bool] = anywhere
    platform: str = ""  # the only one that has it
    repairable: bool = True  # False: no machine without it is the same machine
    alone: bool = False  # it hides, or is hidden by, most others
    modprobe: bool = True  # whether the truth about modprobe is known
