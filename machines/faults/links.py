"""Faults of PCIe links, switches and the IOMMU."""

from __future__ import annotations

import random

from machines.distance import own
from machines.faults.fault import Evidence, Fault
from machines.machine import Function, Machine


def _metal(machine: Machine) -> bool:
    return machine.platform in ("rails", "shared switches", "Arm server", "display card beside")


def _near(machine: Machine) -> list[Function]:
    """NICs that are nearest to a GPU that counts."""
    gpus = [gpu for gpu in machine.gpus if gpu.gpu and gpu.gpu.kind != "consumer"]
    return list({nic.address: nic for gpu in gpus for nic in own(machine, gpu, machine.nics)}.values())


def _acs(machine: Machine, source: random.Random) -> None:
    """The port above a GPU sends what passes between GPU and NIC up to the root complex."""
    machine.at(machine.gpus[0].above).acs = ("SV", "RR", "CR", "UF")


def _translating(machine: Machine, source: random.Random) -> None:
    machine.iommu = source.choice(("DMA", "DMA-FQ"))
    machine.claims.add("iommu-translating")


def _groups_differ(machine: Machine, source: random.Random) -> None:
    machine.log.append("NVRM: dma-buf attach failed: topology not supported for mapping type FORCE_PCIE")
    machine.claims.add("iommu-groups-differ")


def _narrow(machine: Machine, source: random.Random) -> None:
    """A card that lost lanes: both ends can do more."""
    device = source.choice([*_near(machine), *machine.gpus])
    product = device.gpu or device.nic
    assert product
    speed, lanes = product.link.split("x")
    device.link = f"{speed}x{int(lanes) // 2}"
    port = machine.at(device.above)
    port.most, port.link = f"{speed}x{lanes}", device.link


def _small_slot(machine: Machine, source: random.Random) -> None:
    """A slot with a quarter of the lanes."""
    for nic in _near(machine)[:1]:
        assert nic.nic
        speed = nic.nic.link.split("x")[0]
        nic.link = f"{speed}x2"
        port = machine.at(nic.above)
        port.most = port.link = f"{speed}x2"


def _move(machine: Machine, gpu: Function, numa: int) -> None:
    """Put a GPU's NICs at root ports of their own, whose slots are as wide as the old ones."""
    for index, nic in enumerate(own(machine, gpu, machine.nics)):
        old = nic.address
        bus = 0xE0 + 2 * index + (0x08 if numa else 0)
        slot = machine.at(nic.above)
        root = Function(f"{old[:5]}{bus:02x}:01.0", machine.cpu, numa=numa, link=slot.link, most=slot.most)
        machine.functions.insert(0, root)
        nic.address, nic.above, nic.numa = f"{old[:5]}{bus + 1:02x}:00.0", root.address, numa


def _distant(machine: Machine, source: random.Random) -> None:
    gpu = machine.gpus[0]
    _move(machine, gpu, gpu.numa)


def _other_socket(machine: Machine, source: random.Random) -> None:
    gpu = machine.gpus[0]
    _move(machine, gpu, 1 - gpu.numa)
    machine.claims |= {"pair-distant", "pair-cross-socket"}


def _small_reads(machine: Machine, source: random.Random) -> None:
    for nic in _near(machine):
        nic.read_request = 512
    machine.claims.add("read-request-small")


def _one_card(machine: Machine, source: random.Random) -> None:
    """Two functions on two links that are one card."""
    for nic in own(machine, machine.gpus[0], machine.nics)[:2]:
        nic.card = "one card"
    machine.claims.add("shared-nic")


def _data_direct(machine: Machine, source: random.Random) -> None:
    for nic in machine.nics:
        nic.part = "CX8"
    machine.claims.add("data-direct-missing")


def _flat(machine: Machine, source: random.Random) -> None:
    """The topology file of a virtual machine was not collected."""
    machine.topology_file = False
    machine.claims |= {"pair-distant"}


def _one_gpu(machine: Machine) -> bool:
    return _metal(machine) and len(machine.gpus) == 1 and len(machine.nics) <= 2 and machine.cpu != "altra"


def _altra(machine: Machine) -> bool:
    driver = machine.driver
    return (
        machine.platform == "Arm server"
        and driver is not None
        and driver.number >= (580, 65, 6)
        and _single(machine)
    )


def _single(machine: Machine) -> bool:
    return len(machine.gpus) == 1 and len(machine.nics) == 1


def _two_nics(machine: Machine) -> bool:
    return machine.platform == "shared switches" and len(own(machine, machine.gpus[0], machine.nics)) > 1


def _degradable(machine: Machine) -> bool:
    return _metal(machine) and all("x8" not in nic.nic.link for nic in _near(machine) if nic.nic)


def _translates(machine: Machine) -> bool:
    return _metal(machine) and machine.iommu != "off"


def _is_coherent(machine: Machine) -> bool:
    return machine.platform == "coherent" and machine.iommu != "off"


_PAIR = frozenset({Evidence.GPU, Evidence.NIC})

FAULTS = (
    Fault("redirecting switch port", ("acs-redirect",), _acs, _metal, needs=_PAIR),
    Fault("translating IOMMU", ("iommu-translating",), _translating, _translates, needs=_PAIR),
    Fault("PCIe mapping refused", ("iommu-groups-differ",), _groups_differ, _is_coherent),
    Fault("lost lanes", ("link-degraded",), _narrow, _degradable, needs=_PAIR),
    Fault("small slot", ("link-narrower-than-port",), _small_slot, _metal, needs=_PAIR),
    Fault("NIC at another root port", ("pair-distant",), _distant, _one_gpu, needs=_PAIR),
    Fault(
        "NIC at the other socket",
        ("pair-cross-socket", "pair-distant"),
        _other_socket,
        _one_gpu,
        needs=_PAIR,
    ),
    Fault("Altra without a common switch", ("topology-refused",), _distant, _altra, needs=_PAIR),
    Fault("small read requests", ("read-request-small",), _small_reads, _metal, needs=_PAIR),
    Fault("one card on two links", ("shared-nic",), _one_card, _two_nics, needs=_PAIR),
    Fault(
        "ConnectX-8 without Data Direct", ("data-direct-missing",), _data_direct, _is_coherent, needs=_PAIR
    ),
    Fault(
        "hidden topology",
        ("pair-distant",),
        _flat,
        lambda m: m.platform == "VM, flat",
        needs=frozenset({Evidence.TOPOLOGY_FILE}),
    ),
)
