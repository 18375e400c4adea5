"""NICs that should have an RDMA device and have none, and the GPUs that they are the nearest NIC of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from gdrkit.facts.nic_health import MELLANOX, is_in_recovery
from gdrkit.facts.pci import PciDevice, PciGpu, devices, gpus, root_bus
from gdrkit.facts.rdma import DISTANCES, RdmaDevice, distance_of, nic_address, nics
from gdrkit.facts.verbs_kernel import VERBS_MODULES
from gdrkit.node import Node, each_known, fact, if_missing


class UnusedNic(Struct, frozen=True, order=True):
    """A NIC without an RDMA device, nearer to a GPU than every NIC that has one."""

    address: str
    gpu: str


def is_rdma_nic(device: PciDevice) -> bool:
    """Whether a function is a NIC whose driver can create an RDMA device."""
    network = device.class_code.startswith("02")  # pci.ids: 0200 Ethernet, 0207 InfiniBand
    return network and (device.vendor == MELLANOX or device.driver in VERBS_MODULES)


@fact
def judged_nics(node: Node) -> tuple[RdmaDevice | UnusedNic | PciDevice, ...]:
    """The RDMA devices that are hardware, and the NICs that should have one and have none: with each GPU
    that has no nearer NIC, else alone.

    One list that is not known does not hide the other: port-down reports that it is missing."""
    hardware = if_missing((), nics, node)
    unused = if_missing((), unused_functions, node)
    taken = _taken(node)
    bounds = {
        gpu: min(_least_rank(node, gpu.address, other) for other in taken)
        for gpu in (if_missing((), gpus, node) if unused and taken else ())
    }
    return (*hardware, *(found for one in unused for found in _with_gpus(node, one, bounds)))


@fact
def unused_functions(node: Node) -> tuple[PciDevice, ...]:
    """The PCI functions that should have an RDMA device and have none."""
    taken = _taken(node)
    found = (one for one in devices(node) if is_rdma_nic(one) or is_in_recovery(one))
    return tuple(one for one in found if one.address not in taken)


def _taken(node: Node) -> tuple[str, ...]:
    """The PCI addresses of the RDMA devices that are hardware."""
    return tuple(each_known(lambda nic: nic_address(node, nic.name), if_missing((), nics, node)))


def _with_gpus(node: Node, one: PciDevice, bounds: Mapping[PciGpu, int]) -> Iterator[UnusedNic | PciDevice]:
    """The NIC with each GPU that it is known to be nearer to than each that has an RDMA device, whose
    nearest is in `bounds`; alone if there is no such GPU."""
    near = [gpu for gpu, bound in bounds.items() if _is_nearer(node, gpu, one.address, bound)]
    yield from (UnusedNic(one.address, gpu.address) for gpu in near)
    if not near:
        yield one


def _is_nearer(node: Node, gpu: PciGpu, address: str, bound: int) -> bool:
    own = if_missing(None, distance_of, node, gpu.address, address)
    return own is not None and DISTANCES.index(own) < bound


def _least_rank(node: Node, gpu: str, nic: str) -> int:
    """The place of a distance in DISTANCES; where it is not known, the least that it may be."""
    found = if_missing(None, distance_of, node, gpu, nic)
    if found is not None:
        return DISTANCES.index(found)
    apart = if_missing(False, lambda: root_bus(node, gpu) != root_bus(node, nic))
    return DISTANCES.index("NODE") if apart else 0  # only the NUMA nodes are in question


@fact
def judged_addresses(node: Node) -> tuple[str, ...]:
    """The PCI addresses of these NICs, as far as they are known."""

    return tuple(dict.fromkeys(each_known(lambda nic: address_of(node, nic), judged_nics(node))))


def address_of(node: Node, device: RdmaDevice | UnusedNic | PciDevice | PciGpu) -> str:
    """The PCI address of a judged NIC, or of a GPU. Raises EvidenceMissing where that of an RDMA device is
    not known."""
    return nic_address(node, device.name) if isinstance(device, RdmaDevice) else device.address
