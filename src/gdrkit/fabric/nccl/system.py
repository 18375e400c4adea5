"""NCCL's own graph of a machine, built from its topology XML as NCCL builds it.

Source: NCCL src/graph/topo.cc, ncclTopoGetSystemFromXml() and the functions that it calls. The order of
nodes and links is NCCL's, since it determines which of several equally good paths is found."""

from __future__ import annotations

import re

from gdrkit.fabric.nccl.bandwidths import (
    DEFAULT_SPEED,
    LOCAL_BANDWIDTH,
    SPEEDS,
    UNKNOWN_SPEED,
    UNKNOWN_WIDTH,
    between_cpus,
    nvlink,
)
from gdrkit.fabric.nccl.graph import CPU, DEV, GPU, NET, NIC, NVS, PCI, GraphLink, GraphNode, NcclSystem
from gdrkit.formats.errors import FormatError
from gdrkit.formats.xml_text import XmlNode
from gdrkit.programs.nccl.releases import Release

BRIDGE, NVSWITCH, NVLINK_CPU = "0x060400", "0x068000", "0x068001"
_CLASSES = (
    (BRIDGE, PCI),
    ("0x080100", PCI),
    (NVSWITCH, NVS),
    (NVLINK_CPU, CPU),
    ("0x03", GPU),
    ("0x02", NIC),
)
"""Prefixes of PCI classes: topo.cc, kvDictPciClass. Any other class is a switch."""

BROADCOM_GEN4, BROADCOM_GEN5 = 0x1000C0101000A000, 0x1000C03010000000
"""Vendor, device, subsystem vendor and subsystem device of switches that appear as two levels: topo.cc,
getBcmGen(). The last twelve bits are ignored."""


def system_of(root: XmlNode, rules: Release) -> NcclSystem:
    """The graph that NCCL builds from a `system` element. Raises FormatError if NCCL would fail."""
    system = NcclSystem(rules)
    for cpu in root.all("cpu"):
        _add_cpu(system, cpu)
    for cpu in root.all("cpu"):
        _add_gpu_links(system, cpu, _host(system, cpu), "nvlink")
    if rules.c2c_link:
        for cpu in root.all("cpu"):
            _add_gpu_links(system, cpu, _host(system, cpu), "c2c")
    if rules.peer_links:
        for cpu in root.all("cpu"):
            _add_peer_links(system, cpu, _host(system, cpu))
    _flatten(system)
    for node in system.nodes[CPU]:
        for other in system.nodes[CPU]:
            if other is not node and other.system == node.system:
                system.link(node, other, "SYS", node.between)
    for node in system.nodes[CPU]:
        _sort(node, None, rules.order["PIX"])
    return system


def _host(system: NcclSystem, cpu: XmlNode) -> int:
    """The number of a NUMA node's host: ncclGetSystemId(). Always 0 before 2.21."""
    if not system.rules.knows_hosts:
        return 0
    identity = number(cpu.get("host_hash") or "0", 16)
    if identity not in system.hosts:
        system.hosts.append(identity)
    return system.hosts.index(identity)


def number(text: str, base: int = 0) -> int:
    """The result of strtol() for a text: the number that it starts with, or 0."""
    if base == 16:
        match = re.match(r"\s*([+-]?)(?:0[xX])?([0-9a-fA-F]{1,16})", text)
        return int(match[1] + match[2], 16) if match else 0
    match = re.match(r"\s*([+-]?)(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", text)
    if match is None:
        return 0
    digits = match[2]
    if digits[:2] in ("0x", "0X"):
        return int(match[1] + digits, 16)
    if digits.startswith("0"):
        octal = re.match(r"[0-7]+", digits)
        return int(match[1] + octal[0], 8) if octal else 0
    return int(match[1] + digits)


FROM_THE_MACHINE = {
    "cpu": ("numaid", "arch", "vendor", "familyid", "modelid"),
    "pci": ("class", "link_speed", "link_width"),
    "gpu": ("sm", "dev", "gdr"),
    "nvlink": ("tclass",),
}
"""Attributes that NCCL reads from /sys, the processor or NVML if a file lacks them, for the devices of its
ranks: xml.cc, ncclTopoGetXmlFromCpu(), ncclTopoGetXmlFromSys(), ncclTopoGetXmlFromGpu(). Elements above
which it finds no device of a rank are removed before: ncclTopoTrimXml()."""


def attribute(node: XmlNode, name: str) -> str:
    """An attribute that NCCL needs. Raises FormatError if it is missing: then NCCL reads it from the machine
    that it runs on, or fails."""
    if name not in node.attributes:
        where = node.get("busid") or node.get("name") or node.get("numaid")
        element = f"<{node.name}> {where}".rstrip()
        found = name in FROM_THE_MACHINE.get(node.name, ())
        then = "NCCL reads it from the machine that it runs on" if found else "NCCL refuses to start"
        raise FormatError(f"{element} has no {name}; {then}")
    return node.attributes[name]


def bus_id(text: str) -> int:
    """An address as a number, its hexadecimal digits concatenated: utils.cc, busIdToInt64()."""
    shown = re.match(r"[0-9a-fA-F.:]*", text)
    return int(shown[0].replace(".", "").replace(":", "") or "0", 16) if shown else 0


def _add_cpu(system: NcclSystem, element: XmlNode) -> None:
    host = _host(system, element)
    cpu = system.create(CPU, number(attribute(element, "numaid")), host)
    arch = attribute(element, "arch")
    vendor = attribute(element, "vendor") if arch.startswith("x86_64") else ""
    needs_family = bool(system.rules.amd_links) and vendor.startswith("AuthenticAMD")
    family = number(attribute(element, "familyid") if needs_family else element.get("familyid"))
    model = number(element.get("modelid"))
    cpu.name, cpu.vendor = arch, vendor
    cpu.between = between_cpus(system.rules, arch, vendor, family, model)
    for child in element.children:
        if child.name == "pci":
            _add_pci(system, child, cpu)
        elif child.name == "nic":
            nic = system.find(NIC, 0, host)
            if nic is None:
                nic = system.create(NIC, 0, host)
                system.join(cpu, nic, "PIX", LOCAL_BANDWIDTH)
            _add_nets(system, child, nic)


def _add_pci(system: NcclSystem, element: XmlNode, parent: GraphNode) -> None:
    class_ = attribute(element, "class")
    kind = next((kind for start, kind in _CLASSES if class_.startswith(start)), PCI)
    identity, host = bus_id(attribute(element, "busid")), parent.system
    bandwidth = link_bandwidth(element)
    gpus, nics = element.all("gpu"), element.all("nic")
    node = None
    if gpus:
        kind = GPU
        if any("rank" not in gpu.attributes for gpu in gpus):
            return
        for gpu in gpus if system.rules.devices else gpus[:1]:
            node = _add_gpu(system, gpu, identity, parent, bandwidth)
    if nics:
        identity &= ~0xF if system.rules.joins_functions else ~0
        nic = system.find(NIC, identity, host)
        if nic is None:
            nic = node = system.create(NIC, identity, host)
        _add_nets(system, nics[0], nic, (number(element.get("vendor")), number(element.get("device"))))
    elif kind == PCI:
        node = system.create(PCI, identity, host)
        node.device = _device(element)
        for child in element.children:
            if child.name == "pci":
                _add_pci(system, child, node)
    if node is not None:
        system.join(node, parent, "PIX", bandwidth)


def _add_gpu(
    system: NcclSystem, element: XmlNode, identity: int, parent: GraphNode, bandwidth: float
) -> GraphNode | None:
    """Adds a GPU; from 2.30.3 on below a node for the device, which ranks may share."""
    gpu = system.create(GPU, identity, parent.system)
    gpu.sm, gpu.rank, gpu.dev, gpu.gdr = (
        number(attribute(element, name)) for name in ("sm", "rank", "dev", "gdr")
    )
    gpu.partition = number(element.get("mlopart", "-1"))
    if not system.rules.devices:
        return gpu
    device = system.find(DEV, identity, parent.system)
    if device is None:
        device = system.create(DEV, identity, parent.system)
        device.sm, device.dev = gpu.sm, gpu.dev
        system.join(device, parent, "PIX", bandwidth)
    gpu.device = sum(1 for other in system.nodes[GPU] if other.parent is device)
    gpu.parent = device
    system.join(device, gpu, "LOC", LOCAL_BANDWIDTH)
    return None


def link_bandwidth(element: XmlNode) -> float:
    """GB/s of the link above a PCI element: its lanes times the rate of one, as NCCL reads the
    attributes."""
    width = number(attribute(element, "link_width")) or UNKNOWN_WIDTH
    speed = attribute(element, "link_speed")
    lane = next((value for start, value in SPEEDS if speed.startswith(start)), UNKNOWN_SPEED)
    return width * lane / 80.0


def _device(element: XmlNode) -> int:
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    return sum(
        number(element.get(name, "0")) << shift for name, shift in zip(names, (48, 32, 16, 0), strict=True)
    )


def _add_nets(system: NcclSystem, element: XmlNode, nic: GraphNode, chip: tuple[int, int] = (0, 0)) -> None:
    for net in element.all("net"):
        if "dev" not in net.attributes or number(net.get("net", "1")) == 0:
            continue
        node = system.create(NET, number(net.attributes["dev"]), nic.system)
        node.dev, node.name, node.chip = node.id, net.get("name"), chip
        speed = number(net.get("speed", "0"))
        node.gdr, node.port = number(net.get("gdr", "0")), number(net.get("port", "0"))
        system.join(nic, node, "NET", (speed if speed > 0 else DEFAULT_SPEED) / 8000.0)


def _add_gpu_links(system: NcclSystem, element: XmlNode, host: int, name: str, above: str = "") -> None:
    """Adds NVLink or C2C of the GPUs below an element: ncclTopoAddNvLinks(), ncclTopoAddC2c()."""
    above = element.get("busid") or above
    for child in element.children:
        if child.name != name:
            _add_gpu_links(system, child, host, name, above)
            continue
        kind = DEV if system.rules.devices else GPU
        device = system.find(kind, bus_id(above), host)
        if device is None:
            raise FormatError(f"<{name}> below {above}, which is not a GPU of a rank; NCCL refuses to start")
        if name == "c2c":
            _add_c2c(system, child, device)
        else:
            _add_nvlink(system, child, device, host, kind)


def _add_c2c(system: NcclSystem, element: XmlNode, device: GraphNode) -> None:
    cpu = local_cpu_of(device, system.rules)
    if cpu is not None:
        bandwidth = number(attribute(element, "bw")) * number(attribute(element, "count")) / 1000.0
        system.join(device, cpu, system.rules.c2c_link, bandwidth)


def _add_nvlink(system: NcclSystem, element: XmlNode, device: GraphNode, host: int, kind: str) -> None:
    bandwidth = number(attribute(element, "count")) * nvlink(system.rules, device.sm)
    class_ = attribute(element, "tclass")
    target = next((kind for start, kind in _CLASSES if class_.startswith(start)), PCI)
    if target == GPU:
        other = system.find(kind, bus_id(attribute(element, "target")), host)
        if other is not None:  # the other end adds its own direction
            system.link(device, other, "NVL", bandwidth)
        return
    if target == CPU:
        other = local_cpu_of(device, system.rules)
    else:
        switches = system.nodes[NVS]
        other = switches[0] if switches else system.create(NVS, 0, 0)
    if other is not None:
        system.join(device, other, "NVL", bandwidth)


def local_cpu_of(node: GraphNode, rules: Release, stack: tuple[GraphNode, ...] = ()) -> GraphNode | None:
    """The NUMA node above a device in the PCI tree: findLocalCpu().

    Raises FormatError if a version recurses endlessly: until 2.25.1 nothing keeps it from going back, until
    2.21.5 not even into other devices, so that it crashes on any switch above the device."""
    if node.kind == CPU:
        return node
    if node in stack:
        raise FormatError("this version of NCCL crashes on C2C or NVLink to a CPU below a PCIe switch")
    for link in node.links:
        if link.type != rules.order["PIX"] or (rules.only_climbs and link.to.kind not in (PCI, CPU)):
            continue
        if rules.never_turns_back and stack and link.to is stack[-1]:
            continue
        found = local_cpu_of(link.to, rules, (*stack, node))
        if found is not None:
            return found
    return None


def _add_peer_links(system: NcclSystem, element: XmlNode, host: int, above: str = "") -> None:
    above = element.get("busid") or above
    for child in element.children:
        if child.name != "pcilink":
            _add_peer_links(system, child, host, above)
            continue
        switch = system.find(PCI, bus_id(above), host)
        if switch is None:
            raise FormatError(f"<pcilink> below {above}, which is not a switch; NCCL refuses to start")
        other = system.find(PCI, bus_id(attribute(child, "target")), host)
        if other is not None:
            system.link(switch, other, "LOC", LOCAL_BANDWIDTH)


def _generation(system: NcclSystem, node: GraphNode, level: int) -> int:
    """The generation of a Broadcom switch whose levels NCCL merges; 0 for any other."""
    seen = node.device & ~0xFFF
    if seen == BROADCOM_GEN4:
        return 4
    gen5 = seen == BROADCOM_GEN5 | level * 0x1000
    return 5 if gen5 and system.rules.flattens_gen5 else 0


def _flatten(system: NcclSystem) -> None:
    """Merges the two levels of Broadcom's switches: ncclTopoFlattenBcmSwitches()."""
    at = 0
    while at < len(system.nodes[PCI]):
        switch = system.nodes[PCI][at]
        generation = _generation(system, switch, 0)
        if not generation:
            at += 1
            continue
        below = [
            link.to
            for link in switch.links
            if link.to.kind == PCI and _same(system, switch, link.to, generation)
        ]
        switch.links = [link for link in switch.links if link.to not in below]
        for lower in below:
            _take_over(system, switch, lower)
        switch.device |= 0xFFFF
        at = 0


def _take_over(system: NcclSystem, switch: GraphNode, lower: GraphNode) -> None:
    """Moves the links of a lower switch to an upper one, and removes the lower one."""
    for link in lower.links:
        if link.to is switch:
            continue
        switch.links.append(GraphLink(link.type, link.to, link.bandwidth))
        back = next((back for back in link.to.links if back.to is lower), None)
        if back is not None:
            back.to = switch
    system.remove(lower)


def _same(system: NcclSystem, switch: GraphNode, lower: GraphNode, generation: int) -> bool:
    if not system.rules.flattens_gen5:
        return lower.device == switch.device
    return _generation(system, lower, 1) == generation


def _sort(node: GraphNode, above: GraphNode | None, pci: int) -> None:
    """Moves the link to the parent behind all others: ncclTopoSort()."""
    if above is not None:
        at = next(at for at, link in enumerate(node.links) if link.to is above)
        node.links.append(node.links.pop(at))
    for link in list(node.links):
        if link.type == pci and link.to is not above:
            _sort(link.to, node, pci)
