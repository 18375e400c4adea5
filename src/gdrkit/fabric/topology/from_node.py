"""A node's own evidence as a graph: sysfs, or the outputs of lspci, ibv_devinfo and nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from msgspec import structs

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.fabric.topology.graph import (
    C2C,
    DeviceLink,
    HostBridge,
    Net,
    NvLink,
    Role,
    StatedPath,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.fabric.topology.roles import role
from gdrkit.facts.gpu import capability, is_coherent, is_integrated, product_name
from gdrkit.facts.gpu_chips import compute_capability
from gdrkit.facts.kernel import architecture
from gdrkit.facts.nvidia_smi import smi_topology
from gdrkit.facts.pci import (
    ROOT,
    bridges_above,
    devices,
    gpus,
    iommu_group,
    iommu_type,
    numa_node,
    root_bus,
    sysfs_devices,
    there,
)
from gdrkit.facts.pci import PciDevice as PciFunction
from gdrkit.facts.pci import PciGpu as PciGpu
from gdrkit.facts.pci_ports import PortRegisters, port_registers, serial_number
from gdrkit.facts.pci_registers import acs, ats_enabled, link
from gdrkit.facts.pci_text import ACS_BITS
from gdrkit.facts.processors import CpuModel, mask, numa_nodes, processor
from gdrkit.facts.rdma import RdmaDevice, netdev, nics, phys_port_name, ports
from gdrkit.node import Node, if_absent, if_missing

T = TypeVar("T")

MOST_NVLINKS = 18
"""Of one GPU, Hopper and Blackwell: NVIDIA H100 architecture whitepaper, fourth-generation NVLink."""
ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}  # NCCL src/graph/xml.cc, the words of `arch`


class _Asking:
    """Asks a node, and remembers the first reason of each kind for which something is not known."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.missing: dict[str, Missing] = {}

    def __call__(self, what: str, ask: Callable[[], T], absent: T | None = None) -> T | None:
        """The answer; `absent` where somebody looked in vain; None, with a note of `what`, if unknown."""
        try:
            return if_absent(absent, ask)
        except EvidenceMissing as lacks:
            self.missing.setdefault(what, lacks.missing)
            return None

    def all(self, what: str, ask: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """Each of several; none where somebody looked in vain, and none, with a note, if unknown."""
        return self(what, ask) or ()

    @property
    def notes(self) -> tuple[str, ...]:
        by_reason: dict[tuple[MissingReason, str], list[str]] = {}
        for what, missing in self.missing.items():
            ask = "as root" if missing.why is MissingReason.DENIED else missing.ask
            by_reason.setdefault((missing.why, ask), []).append(what)
        return tuple(
            f"not known: {', '.join(whats)} ({why.value.replace('-', ' ')}; {ask})"
            for (why, ask), whats in by_reason.items()
        )


def topology(node: Node, *, ask_driver: bool = True) -> Topology:
    """The graph of a node. Raises EvidenceMissing where nobody can tell which PCI devices there are.

    `ask_driver`: whether nvidia-smi may be started, on a live machine: for NVLink and what GPUs support."""
    asking = _Asking(node)
    found = gpus(node)
    hardware = asking.all("RDMA devices", lambda: nics(node))
    tree = tuple(_tree(node, asking, found, hardware))
    nets = tuple(_nets(node, asking, hardware, tree))
    drawn = tuple(_gpu(node, asking, gpu, index, ask_driver) for index, gpu in enumerate(found))
    stated: tuple[StatedPath, ...] = ()
    if ask_driver and len(found) > 1:
        stated = asking.all("NVLink", lambda: tuple(_stated(node, found)))
    elif len(found) > 1:
        asking.missing["NVLink"] = Missing("NVLink", MissingReason.NOT_COLLECTED, "--nvlink asks the driver")
    switches = any(device.role is Role.NVSWITCH for device in tree)
    return Topology(
        origin=_origin(node),
        cpus=_cpus(node, asking, tree),
        host_bridges=_host_bridges(tree),
        devices=tree,
        gpus=tuple(_with_nvlinks(gpu, stated, switches) for gpu in drawn),
        nets=nets,
        stated=stated,
        shows_ports=True,
        notes=asking.notes,
    )


def _origin(node: Node) -> TopologySource:
    return TopologySource.LSPCI if if_missing(None, sysfs_devices, node) is None else TopologySource.SYSFS


def _cpus(node: Node, asking: _Asking, tree: tuple[TopologyDevice, ...]) -> tuple[TopologyCpu, ...]:
    """NUMA nodes with processors; where nobody listed them, those that devices name."""
    model = asking("processor", lambda: processor(node)) or CpuModel()
    machine = asking("architecture", lambda: architecture(node)) or ""
    masks = {place.number: mask(place.cpus) for place in asking.all("NUMA nodes", lambda: numa_nodes(node))}
    named = {device.numa_node for device in tree if device.numa_node is not None}
    return tuple(
        TopologyCpu(
            numa_node=number,
            arch=ARCHITECTURES.get(machine, machine),
            vendor=model.vendor,
            family=model.family,
            model=model.model,
            name=model.name,
            affinity=masks.get(number, ""),
        )
        for number in sorted(named | masks.keys())
    )


# -- the tree --------------------------------------------------------------------------------------


def _tree(
    node: Node, asking: _Asking, found: tuple[PciGpu, ...], hardware: tuple[RdmaDevice, ...]
) -> Iterator[TopologyDevice]:
    """GPUs, NICs and NVSwitches with all that stands above them, parents before children."""
    roles = {gpu.address: Role.GPU for gpu in found}
    roles |= {nic.pci_address: Role.NIC for nic in hardware if nic.pci_address}
    functions = {d.address: d for d in asking.all("PCI devices", lambda: devices(node))}
    for function in functions.values():
        kind = role(function.class_code, function.vendor, function.device)
        if function.address in roles or kind not in (Role.NVSWITCH, Role.NIC):
            continue
        if not there(node, f"{ROOT}/{function.address}/physfn"):  # virtual ones may be lent away
            roles[function.address] = kind
    seen: set[str] = set()
    for address in sorted(roles):
        above = asking.all("bridges", partial(bridges_above, node, address))
        chain = (*above, address)
        for place, step in enumerate(chain):
            if step not in seen:
                seen.add(step)
                kind = roles.get(step, Role.BRIDGE)
                yield _device(node, asking, functions.get(step), step, chain[:place], kind)


def _device(
    node: Node,
    asking: _Asking,
    function: PciFunction | None,
    address: str,
    above: tuple[str, ...],
    kind: Role,
) -> TopologyDevice:
    registers = asking("PCIe ports and payload", lambda: port_registers(node, address)) or PortRegisters("")
    own = function or PciFunction(address, "", "", "")
    bridge = kind is Role.BRIDGE
    upward = registers.port_type == "upstream-port" or (not registers.port_type and len(above) % 2 == 1)
    group = asking("IOMMU groups", lambda: iommu_group(node, address), "")
    return TopologyDevice(
        address=address,
        role=kind,
        parent=above[-1] if above else "",
        host_bridge=asking("host bridges", lambda: root_bus(node, address)) or "",
        numa_node=asking("NUMA nodes of devices", lambda: numa_node(node, address)),
        port=registers.port_type,
        vendor=own.vendor,
        device=own.device,
        class_code=own.class_code,
        subsystem=own.subsystem,
        driver=own.driver,
        link=_link(node, asking, address, above) if upward or not bridge else DeviceLink(),
        payload_bytes=registers.payload_bytes,
        max_payload_bytes=registers.max_payload_bytes,
        read_request_bytes=registers.read_request_bytes,
        acs=_enforced(node, asking, address) if bridge else None,
        ats_enabled=None if bridge else asking("ATS", lambda: ats_enabled(node, address)),
        iommu_group=group,
        iommu_type=(asking("IOMMU types", lambda: iommu_type(node, address)) or "") if group else "",
        serial=(asking("serial numbers", lambda: serial_number(node, address)) or "") if not bridge else "",
        slot=registers.slot,
        physical_function=_physical_function(node, address) if kind is Role.NIC else "",
    )


def _link(node: Node, asking: _Asking, address: str, above: tuple[str, ...]) -> DeviceLink:
    """The link above a device: it can do what the weaker of its two ends can."""
    own = asking("PCIe links", lambda: link(node, address))
    if own is None:
        return DeviceLink()
    speed, width = own.max_gt_per_s, own.max_width
    if above and (upper := asking("PCIe links", lambda: link(node, above[-1]))):
        speed, width = min(speed, upper.max_gt_per_s), min(width, upper.max_width)
    return DeviceLink(own.current_gt_per_s, own.current_width, speed, width)


def _enforced(node: Node, asking: _Asking, address: str) -> tuple[str, ...] | None:
    """What a port enforces on peers, in lspci's words; () for nothing, None if nobody can tell."""

    def ask() -> tuple[str, ...]:
        found = acs(node, address)
        control = found.control if found else 0
        return tuple(name for bit, name in enumerate(ACS_BITS) if control & 1 << bit)

    nothing: tuple[str, ...] = ()
    return asking("ACS", ask, nothing)


def _physical_function(node: Node, address: str) -> str:
    """The function that a virtual function belongs to; empty for others."""
    folder = f"{ROOT}/{address}/physfn"
    return node.resolve(folder).rsplit("/", 1)[-1] if there(node, folder) else ""


def _host_bridges(tree: tuple[TopologyDevice, ...]) -> tuple[HostBridge, ...]:
    """Every root bus on which a device hangs, with the NUMA node that the first of them names."""
    found: dict[str, int | None] = {}
    for device in tree:
        if device.host_bridge and found.get(device.host_bridge) is None:
            found[device.host_bridge] = device.numa_node
    return tuple(HostBridge(bus, place) for bus, place in sorted(found.items()))


# -- ends ------------------------------------------------------------------------------------------


def _supported(node: Node, asking: _Asking, gpu: PciGpu) -> bool | None:
    """Whether a NIC may reach the GPU's memory on either path; None if nobody can tell."""
    paths = ("dmabuf", "peermem")
    support = [asking("support of GPUs", partial(capability, node, gpu, path)) for path in paths]
    states = {found.state for found in support if found is not None}
    return True if "yes" in states else False if states == {"no"} else None


def _gpu(node: Node, asking: _Asking, gpu: PciGpu, index: int, ask_driver: bool) -> TopologyGpu:
    coherent = asking("C2C", lambda: is_coherent(node, gpu), False)
    return TopologyGpu(
        id=gpu.address,
        address=gpu.address,
        index=index,  # NVML counts by address
        name=asking("names of GPUs", lambda: product_name(node, gpu)) or "",
        compute_capability=asking("compute capability", lambda: compute_capability(node, gpu)),
        is_integrated=asking("whether GPUs have memory of their own", lambda: is_integrated(node, gpu)),
        c2c=C2C(None, None) if coherent else None,
        gdr=_supported(node, asking, gpu) if ask_driver else None,
    )


def _nets(
    node: Node, asking: _Asking, hardware: tuple[RdmaDevice, ...], tree: tuple[TopologyDevice, ...]
) -> Iterator[Net]:
    """A net for each port; one without a name for each NIC that has no RDMA device."""
    for nic in sorted(hardware, key=lambda nic: natural_sort_key(nic.name)):
        net = Net(
            id=nic.name,
            device=nic.name,
            address=nic.pci_address,
            driver=nic.driver,
            firmware=nic.firmware,
            guid=nic.sys_image_guid,
            node_guid=nic.node_guid,
        )
        found = asking.all("ports", partial(ports, node, nic.name))
        if not found:
            yield net
        for place, port in enumerate(found):
            yield structs.replace(
                net,
                id=f"{nic.name}/{port.number}" if place else nic.name,
                number=port.number,
                rate_gbit_per_s=port.rate_gbit_per_s,
                state=port.state,
                link_layer=port.link_layer,
                netdev=if_missing("", netdev, node, nic.name, port.number),
                port_name=if_missing("", phys_port_name, node, nic.name, port.number),
            )
    named = {nic.pci_address for nic in hardware}
    for device in tree:
        if device.role is Role.NIC and device.address not in named:
            yield Net(id=device.address, device="", address=device.address)


def natural_sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """A key by which mlx5_2 stands before mlx5_10."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name))


# -- NVLink ----------------------------------------------------------------------------------------


def _stated(node: Node, found: tuple[PciGpu, ...]) -> Iterator[StatedPath]:
    """The cells of `nvidia-smi topo -m`, GPUs by address: NVML counts them by address."""
    matrix = smi_topology(node)
    ids = {f"GPU{index}": gpu.address for index, gpu in enumerate(found)}
    shown = [name for name in matrix.names if name.startswith("GPU")]
    if len(shown) != len(found):
        source = f"nvidia-smi topo -m: {len(shown)} GPUs, PCI has {len(found)}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, "nvidia-smi topo -m"))
    for (one, other), word in matrix.cells.items():
        if one != other:
            yield StatedPath(ids.get(one, one), ids.get(other, other), word)


def _with_nvlinks(gpu: TopologyGpu, stated: tuple[StatedPath, ...], switches: bool) -> TopologyGpu:
    """NVLink as far as the matrix tells: how many links are bonded towards each GPU.

    More links than a GPU has mean that they all lead to a switch, and so does a switch among the devices."""
    bonds = {
        cell.other: int(cell.word[2:])
        for cell in stated
        if cell.one == gpu.id and cell.word.startswith("NV") and cell.word[2:].isdigit()
    }
    if not stated:
        return gpu
    if bonds and (switches or sum(bonds.values()) > MOST_NVLINKS):
        links: tuple[NvLink, ...] = (NvLink("", max(bonds.values()), "068000"),)
    else:
        links = tuple(NvLink(other, count) for other, count in bonds.items())
    return structs.replace(gpu, nvlinks=links)
