"""Faults of NVLink between hosts: fabric, cliques, the channel to share memory, and NCCL's switches."""

from __future__ import annotations

import random
from collections.abc import Callable

from machines.faults.fault import Evidence, Fault
from machines.machine import Fabric, Machine
from machines.rack import CLIQUE, CLUSTER, NO_CLUSTER, members

_GPU = frozenset({Evidence.GPU})


def _in_rack(machine: Machine) -> bool:
    """Each GPU is in a fabric that is complete, all are in one clique, and the channel is there."""
    found = [gpu.fabric for gpu in members(machine)]
    return machine.imex and bool(found) and all(one == found[0] and one and one.complete for one in found)


def _several(machine: Machine) -> bool:
    return _in_rack(machine) and len(members(machine)) > 1


def _waits(machine: Machine, source: random.Random) -> None:
    """The fabric manager has not joined one GPU."""
    state = source.choice(("In Progress", "Not Started"))
    source.choice(members(machine)).fabric = Fabric(state, "", 0, "")


def _refused(machine: Machine, source: random.Random) -> None:
    """The fabric manager could not join one GPU."""
    source.choice(members(machine)).fabric = Fabric("Completed", "Insufficient Resources", 0, NO_CLUSTER)


def _two_cliques(machine: Machine, source: random.Random) -> None:
    members(machine)[0].fabric = Fabric("Completed", "Success", CLIQUE - 1, CLUSTER)


def _no_channel(machine: Machine, source: random.Random) -> None:
    machine.imex = False


def _alone(machine: Machine, source: random.Random) -> None:
    for gpu in members(machine):
        gpu.fabric = None
    machine.imex = False


def _switch(name: str) -> Callable[[Machine, random.Random], None]:
    def plant(machine: Machine, source: random.Random) -> None:
        machine.nccl_conf[name] = "0"

    return plant


def _unset(name: str) -> Callable[[Machine], bool]:
    return lambda machine: _in_rack(machine) and name not in machine.nccl_conf


FAULTS = (
    Fault("fabric not joined", ("mnnvl-fabric-incomplete",), _waits, _in_rack, needs=_GPU),
    Fault("fabric refused", ("mnnvl-fabric-incomplete",), _refused, _in_rack, needs=_GPU),
    Fault("two cliques", ("mnnvl-clique-differs",), _two_cliques, _several, needs=_GPU),
    Fault("no IMEX channel", ("mnnvl-imex-channel-missing",), _no_channel, _in_rack, needs=_GPU),
    Fault("out of the rack", ("no-mnnvl",), _alone, _in_rack, needs=_GPU),
    *(
        Fault(f"{name}=0", (code,), _switch(name), _unset(name))
        for name, code in (
            ("NCCL_CUMEM_ENABLE", "mnnvl-cumem-off"),
            ("NCCL_MNNVL_ENABLE", "mnnvl-disabled-by-env"),
        )
    ),
)
