"""hwloc's export as a graph.

For links hwloc writes the current bandwidth in GB/s, neither speed nor width; for ports the state.
"""

from __future__ import annotations

from gdrkit.fabric.topology.graph import (
    DeviceLink,
    HostBridge,
    Net,
    Role,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.fabric.topology.roles import role
from gdrkit.facts.processors import mask
from gdrkit.formats.errors import FormatError
from gdrkit.formats.hwloc_xml import HwlocObject
from gdrkit.formats.whole_number import whole_number

OPENFABRICS, NETWORK = "3", "2"
ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}  # NCCL src/graph/xml.cc, the values of `arch`
PORT_STATES = {"1": "DOWN", "2": "INIT", "3": "ARMED", "4": "ACTIVE"}  # enum ibv_port_state
NOTES = (
    "hwloc shows the current bandwidth of links, not their width, nor their maximum",
    "hwloc does not show ACS, IOMMU, the rate of ports, and NVLink",
)


def topology(machine: HwlocObject) -> Topology:
    """The graph of a machine. Raises FormatError without PCI devices, which lstopo --whole-io writes."""
    reader = _HwlocReader()
    reader.visit(machine, machine.infos, "", "", machine.nodes)
    kept = _with_bridges(reader.devices)
    if not kept:
        raise FormatError("no GPU and no NIC in the file; lstopo --whole-io --of xml writes them")
    if not reader.host_bridges:
        raise FormatError(
            "no bridges in the file, so distances are not known; lstopo --whole-io writes them"
        )
    return Topology(
        origin=TopologySource.HWLOC_XML,
        cpus=tuple(sorted(reader.cpus, key=lambda cpu: cpu.numa_node or 0)),
        host_bridges=tuple(reader.host_bridges),
        devices=kept,
        gpus=tuple(reader.gpus),
        nets=tuple(reader.nets),
        shows_ports=True,
        notes=NOTES,
    )


class _HwlocReader:
    """The objects read so far."""

    def __init__(self) -> None:
        self.cpus: list[TopologyCpu] = []
        self.host_bridges: list[HostBridge] = []
        self.devices: dict[str, TopologyDevice] = {}
        self.gpus: list[TopologyGpu] = []
        self.nets: list[Net] = []

    def visit(
        self, thing: HwlocObject, about: dict[str, str], parent: str, bus: str, numa_nodes: tuple[int, ...]
    ) -> None:
        """Reads an object and those inside; `about` describes the processors around it."""
        about = {**about, **thing.infos} if thing.type in ("Machine", "Package", "Socket") else about
        numa_nodes = thing.nodes or numa_nodes
        if thing.type == "NUMANode":
            self.numa_node(thing, about)
        if thing.root_bus:
            bus, parent = thing.root_bus, ""
            self.host_bridges.append(HostBridge(bus, numa_nodes[0] if len(numa_nodes) == 1 else None))
        if thing.pci is not None:
            self.device(thing, parent, bus, numa_nodes[0] if len(numa_nodes) == 1 else None)
            parent = thing.pci.address
        for child in thing.children:
            self.visit(child, about, parent, bus, numa_nodes)

    def numa_node(self, thing: HwlocObject, about: dict[str, str]) -> None:
        if thing.os_index is None or any(cpu.numa_node == thing.os_index for cpu in self.cpus):
            raise FormatError("a NUMA node without a number, or two with the same number")
        if thing.cpus:
            arch = about.get("Architecture", "")
            self.cpus.append(
                TopologyCpu(
                    numa_node=thing.os_index,
                    arch=ARCHITECTURES.get(arch, arch),
                    vendor=about.get("CPUVendor", ""),
                    family=whole_number(about.get("CPUFamilyNumber", "")),
                    model=whole_number(about.get("CPUModelNumber", "")),
                    name=about.get("CPUModel", ""),
                    affinity=mask(thing.cpus),
                )
            )

    def device(self, thing: HwlocObject, parent: str, bus: str, numa_node: int | None) -> None:
        pci = thing.pci
        if pci is None or pci.address in self.devices:
            raise FormatError(f"duplicate PCI device {pci.address if pci else ''}")
        fabrics = [child for child in thing.children if child.osdev_type == OPENFABRICS]
        kind = Role.NIC if fabrics else role(pci.class_code, pci.vendor, pci.device)
        self.devices[pci.address] = TopologyDevice(
            address=pci.address,
            role=kind,
            parent=parent,
            host_bridge=bus,
            numa_node=numa_node,
            vendor=pci.vendor,
            device=pci.device,
            class_code=pci.class_code + "00",
            subsystem=pci.subsystem,
            name=thing.infos.get("PCIDevice", ""),
            link=DeviceLink(gbyte_per_s=pci.gbyte_per_s),
            slot=thing.infos.get("PCISlot", ""),
        )
        if kind is Role.GPU:
            self.gpus.append(
                TopologyGpu(
                    id=pci.address,
                    address=pci.address,
                    index=len(self.gpus),
                    name=thing.infos.get("PCIDevice", ""),
                )
            )
        elif kind is Role.NIC:
            self.nets.extend(_nets(thing, fabrics, pci.address))


def _nets(thing: HwlocObject, fabrics: list[HwlocObject], address: str) -> list[Net]:
    if not fabrics:
        return [Net(id=address, device="", address=address)]
    interface = next((child.name for child in thing.children if child.osdev_type == NETWORK), "")
    return [
        Net(
            id=device.name,
            device=device.name,
            address=address,
            number=1 if "Port1State" in device.infos else None,
            state=PORT_STATES.get(device.infos.get("Port1State", ""), ""),
            netdev=interface,
            guid=device.infos.get("SysImageGUID", ""),
            node_guid=device.infos.get("NodeGUID", ""),
        )
        for device in fabrics
    ]


def _with_bridges(devices: dict[str, TopologyDevice]) -> tuple[TopologyDevice, ...]:
    """The ends of paths and the bridges above them, in the order of the file."""
    kept: set[str] = set()
    for device in devices.values():
        step: TopologyDevice | None = device if device.role in (Role.GPU, Role.NIC, Role.NVSWITCH) else None
        while step is not None and step.address not in kept:
            kept.add(step.address)
            step = devices.get(step.parent)
    return tuple(device for device in devices.values() if device.address in kept)
