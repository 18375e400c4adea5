"""What a fault is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import NamedTuple

from machines.machine import Machine

Plant = Callable[[Machine, random.Random], None]


def anywhere(machine: Machine) -> bool:
    """The fault fits every machine."""
    return True


class Evidence(Enum):
    """What shows a fault, where another fault can take it away."""

    GPU = auto()  # a GPU that the host's driver may have: without one, nothing of the driver matters
    NIC = auto()  # an RDMA device of a NIC
    LOADED = auto()  # a driver that still runs: unloading one makes what it logged a thing of the past
    DRIVER = auto()  # NVIDIA's driver: a readable nvidia.ko, or a loaded one
    HOST = auto()  # the files of the host, which a container does not show
    RUNNING = auto()  # that what runs is what lies on disk
    CUDA = auto()  # CUDA's own answer
    TOPOLOGY_FILE = auto()  # what a hypervisor gives NCCL


NOT_DRAWN = frozenset({Evidence.CUDA, Evidence.TOPOLOGY_FILE})
"""Evidence that a drawn machine lacks: it makes gdrkit call what it would show unknown."""


class Fault(NamedTuple):
    """One way in which a machine is broken, slowed down or worth a note."""

    name: str
    codes: tuple[str, ...]  # one of these names it; the first is its own
    plant: Plant
    fits: Callable[[Machine], bool] = anywhere
    platform: str = ""  # the only one that has it
    repairable: bool = True  # False: no machine without it is the same machine
    needs: frozenset[Evidence] = frozenset()  # the evidence that shows it
    removes: frozenset[Evidence] = frozenset()  # the evidence that is gone with it
    modprobe: bool = True  # whether the truth about modprobe is known

    def hidden_by(self, planted: Iterable[Fault]) -> bool:
        """Whether other faults take away the evidence that would show it."""
        return any(self.needs & other.removes for other in planted if other is not self)

    @property
    def undecided(self) -> bool:
        """Whether the machine shows it, but not what it means: unknown is the right answer then."""
        return bool(self.needs & NOT_DRAWN)
