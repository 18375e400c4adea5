"""The tree in an NCCL log as a graph, with the names, settings and version that other lines of the log show.

The tree is made into the elements of NCCL's own file, from which NCCL built it. Source: NCCL
src/graph/topo.cc, ncclTopoAddPci() and ncclTopoAddNic().
"""

from __future__ import annotations

import re
from collections import defaultdict

from msgspec import Struct, structs

from gdrkit.fabric.topology import from_nccl_xml
from gdrkit.fabric.topology.graph import Topology, TopologySource
from gdrkit.fabric.topology.paths import smi_paths
from gdrkit.formats import nccl_dump
from gdrkit.formats.errors import FormatError
from gdrkit.formats.nccl_dump import DumpId, DumpNode, NcclDump
from gdrkit.formats.xml_text import XmlNode
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.log_lines import frame, record
from gdrkit.programs.nccl.releases import is_modelled

ARCHITECTURES = {1: "x86_64", 2: "ppc64", 3: "arm64"}
VENDORS = {1: "GenuineIntel", 2: "AuthenticAMD", 3: "  Shanghai  "}
"""src/graph/topo.h, NCCL_TOPO_CPU_ARCH_* and NCCL_TOPO_CPU_VENDOR_*; topo.cc, kvDictCpuVendor."""
GENERATIONS = {15: "2.5 GT/s PCIe", 30: "5.0 GT/s PCIe", 60: "8.0 GT/s PCIe", 120: "16.0 GT/s PCIe",
               240: "32.0 GT/s PCIe", 480: "64.0 GT/s PCIe"}  # fmt: skip
"""topo.cc, kvDictPciGen: units of 12.5 MB/s per lane."""
NOT_PCI = 1000.0
"""A link with more GB/s is not PCIe: a NIC without a PCI function is linked with 5000, topo.h, LOC_BW."""
NVLINK_GBYTE_PER_S = (20.6, 20.0, 40.1, 40.0, 22.0, 21.0, 18.0, 12.0)
"""What NCCL counts for one NVLink, by generation and release: topo.h, SM60_NVLINK_BW to SM100_NVLINK_BW."""
MOST_NVLINKS = 18
PRINTED = 0.05
"""Bandwidths are printed with one decimal."""
MOST_SHOWN = 8
OF_DUMPS = ("====", "=== ", "CPU/", "GPU/", "NET/")
"""How lines of a dump begin, apart from those of a link."""

NOTES = (
    "from the tree in an NCCL log, which shows neither host bridges, ports of switches, ACS nor IOMMU",
    "links of PCIe and NVLink are the likeliest ones for the bandwidths that it shows",
)


class LoggedTopology(Struct, frozen=True):
    """The graph of a log, and the version and settings that its job printed."""

    topology: Topology
    version: str
    environment: dict[str, str]


class _LoggedProcess(Struct):
    messages: list[str]
    records: list[nccl_records.NcclRecord]


def has_dump(text: str) -> bool:
    """Whether a text has a tree of NCCL's."""
    return "=== System : max" in text


def topology(text: str) -> LoggedTopology:
    """The graph of the host with the largest tree in a log. Raises FormatError without one that has a GPU.

    NCCL prints a tree for each communicator of each process, without the devices that it does not use, so
    the trees of a host are joined."""
    hosts: dict[str, list[NcclDump]] = defaultdict(list)
    processes = _processes(text)
    for name, process in processes.items():
        hosts[name.rpartition(":")[0]] += nccl_dump.parse(process.messages)
    host = max(hosts, key=lambda name: sum(dump.nodes for dump in hosts[name]), default="")
    if not hosts.get(host):
        raise FormatError(
            "no tree in the log; NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH prints one"
        )
    records = [
        found
        for name, process in processes.items()
        if name.rpartition(":")[0] == host or not name
        for found in process.records
    ]
    dump = nccl_dump.joined(hosts[host])
    built = from_nccl_xml.topology(_Builder(records).system(dump))
    if not built.gpus:
        raise FormatError("the tree in the log has no GPU: it is cut")
    versions = {found.text for found in records if isinstance(found, nccl_records.Version)}
    version = versions.pop() if len(versions) == 1 else ""
    notes = [*NOTES, *_refused(built, dump)]
    if dump.lost:
        notes.append(f"{dump.lost} lines of the tree are left out, because the line above them is missing")
    if others := [name for name, dumps in hosts.items() if dumps and name != host]:
        notes.append(f"the log has trees of {len(others)} more hosts; this is {host or 'the largest'}")
    if version and not is_modelled(version):
        notes.append(f"the job ran NCCL {version}, which gdr does not model")
    return LoggedTopology(
        structs.replace(built, origin=TopologySource.NCCL_LOG, notes=tuple(notes)),
        version,
        {found.name: found.value for found in records if isinstance(found, nccl_records.Variable)},
    )


def _processes(text: str) -> dict[str, _LoggedProcess]:
    """The messages and records of each process of a log."""
    found: dict[str, _LoggedProcess] = defaultdict(lambda: _LoggedProcess([], []))
    for line in text.splitlines():
        if "NCCL" in line:
            prefix = frame(line)
            process, message = found[prefix.process], prefix.message
        else:
            process, message = found[""], line.rstrip()
        if message[:4] in OF_DUMPS or message.lstrip()[:1] == "+":
            process.messages.append(message)
        if message[:1] not in ("", " ", "+", "=") and (known := record(message.strip())) is not None:
            process.records.append(known)
    return found


class _Builder:
    """Makes the elements of NCCL's file from a tree."""

    def __init__(self, records: list[nccl_records.NcclRecord]) -> None:
        self.names: dict[int, str] = {}
        self.gdr: dict[int, str] = {}
        for found in records:
            if isinstance(found, nccl_records.Hcas):
                self.names |= {hca.index: hca.name for hca in found.devices}
            elif isinstance(found, nccl_records.FusedDevice):
                self.names[found.index] = found.name
            elif isinstance(found, nccl_records.NetDevice) and found.index != nccl_records.NO_INDEX:
                self.names.setdefault(found.index, found.device)
                self.gdr[found.index] = "1" if found.enabled else "0"

    def system(self, dump: NcclDump) -> XmlNode:
        """The `system` element of the first host."""
        first = min((root.id.host for root in dump.roots), default=0)
        cpus = tuple(self._cpu(root) for root in dump.roots if root.id.host == first)
        return XmlNode("system", {"version": "1"}, cpus)

    def _cpu(self, root: DumpNode) -> XmlNode:
        arch, vendor, _ = (int(word) for word in root.words.split("/"))
        numa = root.id.number if root.id.number < 1 << 20 else -1
        attributes = {"numaid": str(numa), "arch": ARCHITECTURES.get(arch, "")}
        if vendor in VENDORS:
            attributes["vendor"] = VENDORS[vendor]
        below = [child for child in root.children if child.link == "PCI"]
        return XmlNode("cpu", attributes, tuple(element for child in below for element in self._pci(child)))

    def _pci(self, node: DumpNode) -> tuple[XmlNode, ...]:
        if node.id.kind == "NIC" and node.gbyte_per_s > NOT_PCI:
            return (self._nic(node),)
        if node.id.kind not in ("PCI", "GPU", "NIC", "DEV"):
            return ()
        children = [
            element for child in node.children if child.link == "PCI" for element in self._pci(child)
        ]
        if node.id.kind == "NIC":
            children.append(self._nic(node))
        elif node.id.kind in ("GPU", "DEV"):
            children.append(_gpu(node))
        return (XmlNode("pci", _function(node), tuple(children)),)

    def _nic(self, node: DumpNode) -> XmlNode:
        return XmlNode(
            "nic", {}, tuple(self._net(child) for child in node.children if child.id.kind == "NET")
        )

    def _net(self, node: DumpNode) -> XmlNode:
        """`(asic/port/bandwidth)`, and with the support of CollNet before it since 2.24."""
        index = node.id.number
        attributes = {"dev": str(index), "name": self.names.get(index, f"net{index}")}
        if known := re.fullmatch(r"(?:\w+/)?([0-9a-f]+)/(\d+)/(\d{1,9}\.\d{1,6})", node.words, re.ASCII):
            asic, port, gbyte = known.groups()
            attributes |= {"guid": f"0x{asic}", "port": port, "speed": str(round(float(gbyte) * 8000))}
        if index in self.gdr:
            attributes["gdr"] = self.gdr[index]
        return XmlNode("net", attributes)


def _function(node: DumpNode) -> dict[str, str]:
    """The attributes of a PCI function."""
    kinds = {"GPU": "0x030200", "DEV": "0x030200", "NIC": "0x020000"}
    attributes = {"busid": _address(node.id), "class": kinds.get(node.id.kind, "0x060400")}
    if node.id.kind in ("PCI", "DEV") and re.fullmatch(r"[0-9a-f]{1,16}", node.words):
        word = node.words.zfill(16)
        names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
        attributes |= {name: f"0x{word[4 * i : 4 * i + 4]}" for i, name in enumerate(names)}
        if not int(word, 16):
            attributes = {name: attributes[name] for name in ("busid", "class")}
    speed, width = _link(node.gbyte_per_s)
    return attributes | ({"link_speed": speed, "link_width": str(width)} if speed else {})


def _link(gbyte_per_s: float) -> tuple[str, int]:
    """The widest link for which NCCL counts a bandwidth; "" and 0 if there is none."""
    for width in (16, 8, 4, 2, 1):
        for units, speed in GENERATIONS.items():
            if abs(width * units / 80 - gbyte_per_s) <= PRINTED:
                return speed, width
    return "", 0


def _gpu(node: DumpNode) -> XmlNode:
    attributes = {"rank": node.words} if node.id.kind == "GPU" and node.words.isdigit() else {}
    links = []
    for child in node.children:
        count = _nvlinks(child.gbyte_per_s)
        if child.link == "NVL":
            target = _address(child.id) if child.id.kind == "GPU" else ""
            tclass = "0x030200" if target else "0x068000"
            links.append(XmlNode("nvlink", {"target": target, "count": str(count), "tclass": tclass}))
        elif child.link == "C2C":
            links.append(XmlNode("c2c", {"bw": str(round(child.gbyte_per_s * 1000)), "count": "1"}))
    return XmlNode("gpu", attributes, tuple(links))


def _nvlinks(gbyte_per_s: float) -> int:
    """The number of NVLinks for which NCCL counts a bandwidth: of the first generation that fits."""
    for rate in NVLINK_GBYTE_PER_S:
        count = round(gbyte_per_s / rate)
        if 1 <= count <= MOST_NVLINKS and abs(count * rate - gbyte_per_s) <= PRINTED:
            return count
    return max(1, round(gbyte_per_s / NVLINK_GBYTE_PER_S[0]))


def _address(found: DumpId) -> str:
    """The address that a number stands for: src/misc/utils.cc, int64ToBusId()."""
    number = found.number
    return f"{number >> 20 & 0xFFFF:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 15:x}"


def _refused(built: Topology, dump: NcclDump) -> list[str]:
    """Pairs near each other that the path table sends through the CPU, which NCCL does where it refuses
    GPUDirect RDMA: src/graph/paths.cc, ncclTopoComputePaths()."""
    by_net = {net.nccl.dev: net for net in built.nets if net.nccl}
    by_address = {gpu.address: gpu for gpu in built.gpus}
    found = []
    for (one, other), kind in dump.paths.items():
        gpu = by_address.get(_address(one)) if one.kind == "GPU" else None
        net = by_net.get(str(other.number)) if other.kind == "NET" else None
        if gpu is None or net is None or kind not in ("PHB", "SYS"):
            continue
        near = smi_paths(built, gpu, net)
        if near and near[0] in ("PIX", "PXB"):
            found.append(f"{gpu.id} and {net.id}")
    if not found:
        return []
    pairs = ", ".join(found[:MOST_SHOWN])
    more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
    return [f"NCCL refused GPUDirect RDMA to near pairs, since its paths avoid them: {pairs}{more}"]
