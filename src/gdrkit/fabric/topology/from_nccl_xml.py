"""NCCL's topology files as a graph.

Source: NCCL src/graph/xml.cc and topo.cc. link_speed and link_width are what both ends can do, the lower of
max_link_speed and max_link_width of device and port (ncclTopoGetXmlFromSys()); only 2.30.7 writes a GPU's
current link, which may be idle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from msgspec import structs

from gdrkit.fabric.topology.graph import (
    C2C,
    DeviceLink,
    NcclNet,
    Net,
    NvLink,
    PeerLink,
    Role,
    Topology,
    TopologyCpu,
    TopologyDevice,
    TopologyGpu,
    TopologySource,
)
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.xml_text import XmlNode

ANY_SWITCH = "fffffff:ff:ff.0"
ANY_SWITCHES = (ANY_SWITCH, "fffffff:ffff:ff", "")
"""The target of a link to an NVSwitch without an address, as NCCL writes it until 2.30.7 and, for all links
to switches together, since 2.31. Source: xml.cc, ncclTopoGetXmlFromGpu()."""
NVSWITCH_CLASS = "0680"
SAME_NAME_LIMIT = 64
"""Nets of one name: the largest node has some 40 ports, and a plugin may call all of them the same."""

_ADDRESS = regex(r"(?:0{0,4})([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])")


def topology(root: XmlNode) -> Topology:
    """The graph of a `system` element; if it has several hosts (one NVLink domain), of the first.

    Raises FormatError."""
    if root.name != "system":
        raise FormatError(f"<{root.name}> is not a topology; NCCL_TOPO_DUMP_FILE writes one")
    cpus = root.all("cpu")
    if not cpus:
        raise FormatError("no <cpu> in the file")
    hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in cpus))
    reader = _NcclXmlReader()
    for cpu in cpus:
        if cpu.get("host_hash") == hosts[0]:
            reader.cpu(cpu)
    if unknown := sum(_kind_not_stated(device) for device in reader.devices):
        reader.notes.append(
            f"the file does not state what {unknown} of its functions are: NCCL reads class and link from "
            "/sys of the machine that it runs on; NCCL_TOPO_DUMP_FILE there writes a complete file"
        )
    if len(hosts) > 1:
        reader.notes.append(f"the file has {len(hosts)} hosts; this is the first")
    return Topology(
        origin=TopologySource.NCCL_XML,
        cpus=tuple(reader.cpus),
        devices=tuple(reader.devices),
        gpus=tuple(reader.gpus),
        nets=tuple(reader.nets),
        peer_links=tuple(reader.peer_links),
        notes=(*reader.notes, "NCCL's files show neither host bridges nor ports of switches"),
    )


def _kind_not_stated(device: TopologyDevice) -> bool:
    return device.role is Role.OTHER and not device.class_code


def speed_gt_per_s(text: str) -> float | None:
    """`32.0 GT/s PCIe` as 32.0; None for an empty or unknown speed."""
    found = re.match(r"(\d{1,4}(?:\.\d{1,4})?) ?GT/s", text)
    return float(found[1]) if found and float(found[1]) > 0 else None


class _NcclXmlReader:
    """The elements read so far."""

    def __init__(self) -> None:
        self.cpus: list[TopologyCpu] = []
        self.devices: list[TopologyDevice] = []
        self.gpus: list[TopologyGpu] = []
        self.nets: list[Net] = []
        self.peer_links: list[PeerLink] = []
        self.notes: list[str] = []
        self.seen: set[str] = set()
        self.names: set[str] = set()
        self.numa_nodes: set[int | None] = set()

    def cpu(self, node: XmlNode) -> None:
        numa = _number(node, "numaid")
        numa_node = numa if numa is not None and numa >= 0 else None
        if numa_node in self.numa_nodes:
            raise FormatError(f"two <cpu> with numaid {node.get('numaid') or 'missing'}")
        self.numa_nodes.add(numa_node)
        self.cpus.append(
            TopologyCpu(
                numa_node=numa_node,
                arch=node.get("arch"),
                vendor=node.get("vendor"),
                family=_family(_number(node, "familyid")),
                model=_number(node, "modelid"),
                affinity=node.get("affinity"),
                host_hash=node.get("host_hash"),
            )
        )
        for child in node.all("pci"):
            self.pci(child, "", numa_node)
        for child in node.all("nic"):
            self.nic(child, "", numa_node)

    def pci(self, node: XmlNode, parent: str, numa_node: int | None) -> None:
        address = pci_address(node.get("busid"))
        if address in self.seen:
            raise FormatError(f"duplicate busid {address}")
        self.seen.add(address)
        nothing = TopologyGpu(id=address, address=address)
        gpus = [gpu for gpu in (_gpu(child, address) for child in node.all("gpu")) if gpu != nothing]
        has_net = any(nic.all("net") for nic in node.all("nic"))
        role = Role.GPU if gpus else Role.NIC if has_net else _role(node)
        self.devices.append(_device(node, role, address, parent, numa_node))
        for number, gpu in enumerate(gpus):
            self.gpus.append(structs.replace(gpu, id=f"{address}/{number}") if len(gpus) > 1 else gpu)
        if role is Role.GPU and not gpus:
            self.gpus.append(nothing)
        if role is Role.NIC and not has_net:
            self.names.add(address)
            self.nets.append(Net(id=address, device="", address=address))
        for child in node.all("pcilink"):
            self.peer_links.append(PeerLink(address, pci_address(child.get("target"))))
        for child in node.all("nic"):
            self.nic(child, address, None)
        for child in node.all("pci"):
            self.pci(child, address, numa_node)

    def nic(self, node: XmlNode, address: str, numa_node: int | None) -> None:
        for child in node.all("net"):
            net = _net(child, address, numa_node)
            numbered = (f"{net.device}#{number}" for number in range(2, SAME_NAME_LIMIT))
            names = chain((net.id, f"{net.device}/{net.number}"), numbered)
            name = next((name for name in names if name not in self.names), None)
            if name is None:
                raise FormatError(f"too many nets named {net.device[:40]!r}")
            self.names.add(name)
            self.nets.append(structs.replace(net, id=name))


def _family(joined: int | None) -> int | None:
    """The processor's family: NCCL shifts CPUID's extended family, and writes 175 for family 25."""
    if joined is None or joined <= 15 or joined & 15 != 15:
        return joined
    return 15 + (joined - 15 >> 4)


def _device(node: XmlNode, role: Role, address: str, parent: str, numa_node: int | None) -> TopologyDevice:
    subsystem = _digits(node, "subsystem_vendor", 4), _digits(node, "subsystem_device", 4)
    width = _number(node, "link_width")
    return TopologyDevice(
        address=address,
        role=role,
        parent=parent,
        numa_node=numa_node,
        vendor=_digits(node, "vendor", 4),
        device=_digits(node, "device", 4),
        class_code=_digits(node, "class", 6),
        subsystem=":".join(subsystem) if all(subsystem) else "",
        link=DeviceLink(
            max_gt_per_s=speed_gt_per_s(node.get("link_speed")), max_width=width if width else None
        ),
    )


def _role(node: XmlNode) -> Role:
    """The role by class and by what is below a function, since a hypervisor may show a false class."""
    kind = _digits(node, "class", 6)
    if kind.startswith(NVSWITCH_CLASS):
        return Role.NVSWITCH
    if kind.startswith("0604") or node.all("pci"):
        return Role.BRIDGE
    return {"03": Role.GPU, "02": Role.NIC}.get(kind[:2], Role.OTHER)


def _gpu(node: XmlNode, address: str) -> TopologyGpu:
    c2c = node.all("c2c")
    return TopologyGpu(
        id=address,
        address=address,
        index=_number(node, "dev"),
        compute_capability=_number(node, "sm"),
        nvlinks=tuple(_nvlinks(node)) or None,
        c2c=C2C(_number(c2c[0], "bw"), _number(c2c[0], "count")) if c2c else None,
        rank=_number(node, "rank"),
        gdr={"0": False, "1": True}.get(node.get("gdr")),
        mlopart=_number(node, "mlopart"),
    )


def _nvlinks(gpu: XmlNode) -> Iterator[NvLink]:
    for node in gpu.all("nvlink"):
        target = node.get("target").lower()
        yield NvLink(
            "" if target in ANY_SWITCHES else pci_address(target),
            _number(node, "count") or 0,
            _digits(node, "tclass", 6),
        )


def _net(node: XmlNode, address: str, numa_node: int | None) -> Net:
    speed = _number(node, "speed")
    name = node.get("name") or f"net{node.get('dev')}"
    return Net(
        id=name,
        device=name,
        address=address,
        numa_node=numa_node,
        number=_number(node, "port"),
        rate_gbit_per_s=speed / 1000 if speed and speed > 0 else None,
        guid=node.get("guid"),
        nccl=NcclNet(**{field: node.get(field) for field in NcclNet.__struct_fields__}),
    )


def pci_address(text: str) -> str:
    """A busid as 0000:1b:00.0. Raises FormatError, also for the short forms that facts/nvidia_smi.py reads:
    NCCL writes all four parts (src/misc/utils.cc, int64ToBusId())."""
    found = _ADDRESS.fullmatch(text.strip().lower())
    if found is None:
        raise FormatError(f"not a busid: {text[:30]!r}")
    return f"{found[1]}:{found[2]}:{found[3]}.{found[4]}"


def _number(node: XmlNode, attribute: str) -> int | None:
    """A whole number; None if it is not written."""
    text = node.get(attribute)
    if not text:
        return None
    if not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        raise FormatError(f'{attribute}="{text[:20]}" of <{node.name}> is not a number')
    return int(text)


def _digits(node: XmlNode, attribute: str, count: int) -> str:
    """`0x10de` as 10de; empty if it is not written."""
    text = node.get(attribute).lower().removeprefix("0x")
    if text and not re.fullmatch(r"[0-9a-f]{1,8}", text):
        raise FormatError(f'{attribute}="{text[:20]}" of <{node.name}> is not a hexadecimal number')
    return text.zfill(count) if text else ""
