"""The PCIe tree of a node for a terminal: one line per device, with its faults."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.fabric.topology.graph import (
    DeviceLink,
    Net,
    NvLink,
    Role,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
)
from gdrkit.fabric.topology.paths import enforced, link_fault
from gdrkit.formats.gpu_slot import gpu_slot

Line = tuple[str, tuple[str, ...]]  # a device, and its faults

VENDORS = {
    "1000": "Broadcom", "10b5": "PLX", "11f8": "Microchip", "15b3": "NVIDIA", "10de": "NVIDIA",
    "8086": "Intel", "1022": "AMD", "1d0f": "Amazon",
}  # fmt: skip
"""Makers of switches and NICs: pci.ids. Others are shown by number."""


def tree(topology: Topology, *, ports: bool = False) -> Iterator[Line]:
    """The devices below their host bridges, and host bridges below their NUMA nodes.

    Without `ports`, root ports and downstream ports are left out; their faults appear at the devices
    below."""
    drawer = _Drawer(topology, ports)
    for numa_node in numa_nodes(topology):
        yield numa_words(topology, numa_node), ()
        here = [d for d in topology.below.get("", ()) if d.numa_node == numa_node]
        yield from _bridges(drawer, topology, here)
        for net in topology.nets:
            if not net.address and net.numa_node == numa_node and (topology.devices or net.nccl):
                yield f"  {net_words(net)}, {'no PCI device' if net.nccl else 'PCI function not known'}", ()


def numa_nodes(topology: Topology) -> list[int | None]:
    """The NUMA nodes to show, the one without a number last."""
    known: set[int | None] = {device.numa_node for device in topology.below.get("", ())}
    known |= {cpu.numa_node for cpu in topology.cpus}
    if topology.devices:
        known |= {net.numa_node for net in topology.nets if not net.address}
    return sorted(known, key=lambda number: (number is None, number or 0))


def numa_words(topology: Topology, numa_node: int | None) -> str:
    """A NUMA node with its processor: "NUMA node 0  x86_64  Intel(R) Xeon(R) ..."."""
    cpu = next(
        (cpu for cpu in topology.cpus if cpu.numa_node == numa_node), TopologyCpu(numa_node=numa_node)
    )
    where = "no known NUMA node" if numa_node is None else f"NUMA node {numa_node}"
    model = cpu.name or " ".join(
        word
        for word in (
            cpu.vendor,
            f"family {cpu.family}" if cpu.family is not None else "",
            f"model {cpu.model}" if cpu.model is not None else "",
        )
        if word
    )
    return "  ".join(word for word in (where, cpu.arch, model) if word)


def _bridges(drawer: _Drawer, topology: Topology, here: list[TopologyDevice]) -> Iterator[Line]:
    buses = list(dict.fromkeys(device.host_bridge for device in here))
    for bus in buses:
        margin = "  "
        if bus:
            yield f"{margin}host bridge {bus}", ()
            margin += "  "
        for device in (d for d in here if d.host_bridge == bus):
            yield from drawer.draw(device, margin, ())


class _Drawer:
    """Draws devices with their known attributes."""

    def __init__(self, topology: Topology, ports: bool) -> None:
        self.topology, self.ports = topology, ports
        self.gpus: dict[str, list[TopologyGpu]] = {}
        self.nets: dict[str, list[Net]] = {}
        for gpu in topology.gpus:
            self.gpus.setdefault(gpu.address, []).append(gpu)
        for net in topology.nets:
            self.nets.setdefault(net.address, []).append(net)

    def draw(self, device: TopologyDevice, margin: str, above: tuple[str, ...]) -> Iterator[Line]:
        """A device and those below it. `above`: the faults of ports that were left out."""
        below = self.topology.below.get(device.address, ())
        marks = (*above, *faults(device))
        if not self.ports and is_port(self.topology, device):
            for child in below:
                yield from self.draw(child, margin, marks)
            return
        yield f"{margin}{device.address}  {self.words(device)}", marks
        for child in below:
            yield from self.draw(child, margin + "  ", ())

    def words(self, device: TopologyDevice) -> str:
        match device.role:
            case Role.GPU:
                about = ", ".join(map(gpu_words, self.gpus.get(device.address, ()))) or "GPU"
            case Role.NIC:
                nets = self.nets.get(device.address, [])
                about = ", ".join(map(net_words, nets)) or "NIC"
            case Role.NVSWITCH:
                about = "NVSwitch"
            case Role.BRIDGE:
                about = "port" if is_port(self.topology, device) else f"switch{_maker(device)}"
            case _:
                about = f"device {device.vendor}:{device.device}".removesuffix(" :")
                if not device.class_code and not device.vendor:
                    about = "device whose kind is not stated"
        return "  ".join(word for word in (about, link_words(device.link)) if word)


def is_port(topology: Topology, device: TopologyDevice) -> bool:
    """Whether a bridge is a root port or a downstream port, without a link of its own above it."""
    if device.role is not Role.BRIDGE or not topology.shows_ports:
        return False
    if device.port:
        return device.port in ("root-port", "downstream-port")
    return len(topology.above(device.address)) % 2 == 0


def faults(device: TopologyDevice) -> tuple[str, ...]:
    """The faults of a device, in words."""
    found = []
    if device.acs_wrong:
        found.append(f"ACS at {device.address}: needs {device.acs_wrong}")
    elif (
        device.acs and not device.acs_needed and any(bit in device.acs for bit in ("ReqRedir", "CmpltRedir"))
    ):
        found.append(f"ACS at {device.address}: {enforced(device)}")
    if fault := link_fault(device, is_gpu=device.role is Role.GPU):
        found.append(f"link runs at {fault}")
    if device.role is Role.NIC and device.iommu_type.startswith("DMA"):
        found.append(f"IOMMU translates ({device.iommu_type})")
    return tuple(found)


def link_words(link: DeviceLink) -> str:
    """A link in words: `32 GT/s x16`; of a slow one also the speed that it can have."""
    speed, width = link.gt_per_s, link.width
    if speed is not None and width is not None:
        idle = f" (up to {link.max_gt_per_s:g})" if link.is_slow else ""
        return f"{speed:g} GT/s{idle} x{width}"
    if link.gbyte_per_s is not None:
        return f"{link.gbyte_per_s:.1f} GB/s"
    known = (
        f"{link.max_gt_per_s:g} GT/s" if link.max_gt_per_s is not None else "",
        f"x{link.max_width}" if link.max_width is not None else "",
    )
    return " ".join(word for word in known if word)


def _maker(device: TopologyDevice) -> str:
    if not device.vendor or device.vendor == "ffff":
        return ""
    return f" {VENDORS.get(device.vendor, device.vendor)} {device.device}"


def gpu_words(gpu: TopologyGpu, *, address: str = "") -> str:
    """A GPU with its product and its links besides PCIe: `GPU 0 H100, NVLink x18 to switches`;
    with its address, where that is not beside it."""
    name = gpu.name.removeprefix("NVIDIA Corporation ")
    head = gpu_slot(gpu.index, address) or "GPU"
    more = [name] if name else []
    if gpu.is_integrated:
        more.append("integrated")
    if gpu.nvlinks:
        more.append("NVLink " + ", ".join(map(_nvlink_words, _joined(gpu.nvlinks))))
    if gpu.c2c is not None:
        more.append("C2C to its CPU")
    if gpu.gdr is False:
        more.append("no GPUDirect RDMA")
    if gpu.unusable:
        more.append(f"unusable ({gpu.unusable})")
    return " ".join([head, ", ".join(more)]).rstrip()


def _joined(links: tuple[NvLink, ...]) -> list[NvLink]:
    """Links to switches as one bond, since it does not matter which switch."""
    switches = [link for link in links if link.target_class.startswith("0680")]
    others = [link for link in links if link not in switches]
    bond = NvLink("", sum(link.count for link in switches), "068000")
    return ([bond] if switches else []) + others


def _nvlink_words(link: NvLink) -> str:
    return f"x{link.count} to {link.target or 'switches'}"


def net_words(net: Net) -> str:
    """A port with its rate, and its state unless it is active: `NIC mlx5_0 400 Gbit/s InfiniBand`."""
    if not net.device:
        return f"NIC {net.netdev or 'without a known RDMA device'}"
    rate = f"{net.rate_gbit_per_s:g} Gbit/s" if net.rate_gbit_per_s is not None else ""
    unusable = f"unusable ({net.unusable})" if net.unusable else ""
    state = "" if net.state == "ACTIVE" else net.state
    more = [word for word in (rate, net.link_layer, state, unusable) if word]
    return f"NIC {net.id}" + (f" {' '.join(more)}" if more else "")
