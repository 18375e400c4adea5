"""The drawing of `lspci -tv` as a graph: the tree and names, no classes, no links, no NUMA nodes."""

from __future__ import annotations

import re

from gdrkit.fabric.topology.graph import (
    HostBridge,
    Net,
    Role,
    Topology,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.facts.gpu_ids import INTEGRATED, SUPPORTED
from gdrkit.formats.errors import FormatError
from gdrkit.formats.lspci_tree import DrawnFunction

NOTES = (
    "lspci -t shows only the tree: links, ACS, IOMMU, NUMA nodes and RDMA devices are not known",
    "GPUs and NICs are recognised by their names",
)
NO_GPU = re.compile(r"Audio|USB|UCSI|Serial|Switch|Bridge|Memory Controller|Host Controller")
NO_NIC = re.compile(r"DMA|Bridge|Switch|SoC|Management|Crypto|Virtual Function|nvme", re.IGNORECASE)
NETWORK = ("Mellanox Technologies", "Amazon.com, Inc. Elastic Fabric Adapter")
"""Prefixes of names in pci.ids that are shown as NICs."""


def topology(drawing: tuple[DrawnFunction, ...]) -> Topology:
    """The graph of a drawing. Raises FormatError if it has neither a GPU nor a NIC that pci.ids names."""
    by_address = {drawn.address: drawn for drawn in drawing}
    roles = {drawn.address: kind for drawn in drawing if (kind := _role(drawn.name))}
    if not roles:
        raise FormatError("no GPU and no NIC by name in the drawing of lspci -t; draw it with lspci -tv")
    kept = dict.fromkeys(step for end in roles for step in (*by_address[end].above, end))
    devices = tuple(
        TopologyDevice(
            address=address,
            role=roles.get(address, Role.BRIDGE),
            parent=by_address[address].above[-1] if by_address[address].above else "",
            host_bridge=by_address[address].root_bus,
            name=by_address[address].name,
        )
        for address in by_address  # bridges first, then the devices below them
        if address in kept
    )
    gpus = [device for device in devices if device.role is Role.GPU]
    return Topology(
        origin=TopologySource.LSPCI_TREE,
        host_bridges=tuple(
            HostBridge(bus) for bus in dict.fromkeys(device.host_bridge for device in devices)
        ),
        devices=devices,
        gpus=tuple(
            TopologyGpu(id=gpu.address, address=gpu.address, index=index, name=gpu.name)
            for index, gpu in enumerate(gpus)
        ),
        nets=tuple(
            Net(id=device.address, device="", address=device.address)
            for device in devices
            if device.role is Role.NIC
        ),
        shows_ports=True,
        notes=NOTES,
    )


def _role(name: str) -> Role | None:
    if name.startswith("NVIDIA Corporation "):
        if unnamed := re.search(r"Device ([0-9a-f]{4})$|\[10de:([0-9a-f]{4})\]$", name):
            number = unnamed[1] or unnamed[2]
            if number in SUPPORTED or number in INTEGRATED:
                return Role.GPU
        return None if NO_GPU.search(name) or (unnamed and unnamed[1]) else Role.GPU
    if name.startswith(NETWORK) and not NO_NIC.search(name):
        return Role.NIC
    return None
