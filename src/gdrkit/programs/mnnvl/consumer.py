"""MNNVL: NVLink between the hosts of a rack (GB200, GB300), which NCCL and UCX prefer to any NIC."""

from __future__ import annotations

from gdrkit.facts.wheels import LibraryCopy
from gdrkit.formats.whole_number import integer
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer, PathSupport, Switch
from gdrkit.programs.mnnvl.facts import rack_gpus
from gdrkit.rules.capabilities import Path


def copies(node: Node) -> tuple[LibraryCopy, ...]:
    """The GPUs that are in a rack: nothing has to be installed for a program to see it."""
    return tuple(LibraryCopy("", address) for address in rack_gpus(node))


MNNVL = Consumer(
    name="mnnvl",
    title="MNNVL",
    copies=copies,
    without="leaves traffic between hosts to the NICs, or the program stops",
    uses=(PathSupport(path=Path.NVLINK),),
    switches=(
        Switch(
            name="NCCL_CUMEM_ENABLE",
            closes=(Path.NVLINK,),
            off=lambda value: integer(value) == 0,
            source="src/init.cc, initTransportsRank()",
        ),
        Switch(
            name="NCCL_MNNVL_ENABLE",
            closes=(Path.NVLINK,),
            off=lambda value: integer(value) == 0,
            source="src/mnnvl.cc, NCCL_PARAM(MNNVLEnable)",
        ),
    ),
)
