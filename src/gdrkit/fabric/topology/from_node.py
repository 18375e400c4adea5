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
    NETS_LIMIT,
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
from gdrkit.facts.acs_layout import is_behind_cpu, masks_of_layout
from gdrkit.facts.gpu import gpu_support, is_coherent, is_integrated, product_name
from gdrkit.facts.gpu_chips import compute_capability
from gdrkit.facts.kernel import architecture
from gdrkit.facts.nvidia_smi import smi_topology
from gdrkit.facts.pci import (
    ROOT,
    bridges_above,
    devices,
    gpu_at,
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
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.unusable import unusable_gpu, unusable_nic

T = TypeVar("T")

RDMA = "RDMA devices"

MOST_NVLINKS = 18
"""NVLinks of one GPU, Hopper and Blackwell: NVIDIA H100 architecture whitepaper, fourth-generation
NVLink."""
ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}  # NCCL src/graph/xml.cc, the values of `arch`


class _NodeReader:
    """Asks a node, and records for each kind of fact the first reason why it is not known."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.missing: dict[str, Missing] = {}

    def __call__(self, what: str, ask: Callable[[], T], absent: T | None = None) -> T | None:
        """The answer; `absent` if it does not exist; None, with a note about `what`, if it is not known."""
        try:
            return if_absent(absent, ask)
        except EvidenceMissing as error:
            self.missing.setdefault(what, error.missing)
            return None

    def all(self, what: str, ask: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """The answers; none if they do not exist; none, with a note about `what`, if they are not known."""
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
    """The graph of a node. Raises EvidenceMissing if its PCI devices are not known.

    `ask_driver`: whether to read what needs the driver (nvidia-smi): NVLink and GPUs' capabilities."""
    reader = _NodeReader(node)
    found = gpus(node)
    hardware = reader.all(RDMA, lambda: nics(node))
    tree = tuple(_tree(node, reader, found, hardware))
    nets = tuple(_nets(node, reader, hardware, tree))
    drawn = tuple(_gpu(node, reader, gpu, index, ask_driver) for index, gpu in enumerate(found))
    stated: tuple[StatedPath, ...] = ()
    if ask_driver and len(found) > 1:
        stated = reader.all("NVLink", lambda: tuple(_stated(node, found)))
    elif len(found) > 1:
        reader.missing["NVLink"] = Missing("NVLink", MissingReason.NOT_COLLECTED, "--nvlink asks the driver")
    switches = any(device.role is Role.NVSWITCH for device in tree)
    return Topology(
        origin=_origin(node),
        cpus=_cpus(node, reader, tree),
        host_bridges=_host_bridges(tree),
        devices=tree,
        gpus=tuple(_with_nvlinks(gpu, stated, switches) for gpu in drawn),
        nets=nets,
        stated=stated,
        shows_ports=True,
        notes=reader.notes,
        nets_known=RDMA not in reader.missing,
    )


def _origin(node: Node) -> TopologySource:
    return TopologySource.LSPCI if if_missing(None, sysfs_devices, node) is None else TopologySource.SYSFS


def _cpus(node: Node, reader: _NodeReader, tree: tuple[TopologyDevice, ...]) -> tuple[TopologyCpu, ...]:
    """NUMA nodes with processors; if they are not listed, those that devices name."""
    model = reader("processor", lambda: processor(node)) or CpuModel()
    machine = reader("architecture", lambda: architecture(node)) or ""
    masks = {numa.number: mask(numa.cpus) for numa in reader.all("NUMA nodes", lambda: numa_nodes(node))}
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
    node: Node, reader: _NodeReader, found: tuple[PciGpu, ...], hardware: tuple[RdmaDevice, ...]
) -> Iterator[TopologyDevice]:
    """GPUs, NICs and NVSwitches with the bridges above them, parents before children. Raises FormatError for
    more NICs than a machine has."""
    roles = {gpu.address: Role.GPU for gpu in found}
    roles |= {nic.pci_address: Role.NIC for nic in hardware if nic.pci_address}
    functions = {d.address: d for d in reader.all("PCI devices", lambda: devices(node))}
    for function in functions.values():
        kind = role(function.class_code, function.vendor, function.device)
        if function.address in roles or kind not in (Role.NVSWITCH, Role.NIC):
            continue
        if not there(node, f"{ROOT}/{function.address}/physfn"):  # virtual functions may belong to a guest
            roles[function.address] = kind
    if (nics := [*roles.values()].count(Role.NIC)) > NETS_LIMIT:  # before a dozen facts of each are read
        raise FormatError(f"{nics} NICs are more than one machine has")
    seen: set[str] = set()
    for address in sorted(roles):
        above = reader.all("bridges", partial(bridges_above, node, address))
        chain = (*above, address)
        for depth, step in enumerate(chain):
            if step not in seen:
                seen.add(step)
                kind = roles.get(step, Role.BRIDGE)
                yield _device(node, reader, functions.get(step), step, chain[:depth], kind)


def _device(
    node: Node,
    reader: _NodeReader,
    function: PciFunction | None,
    address: str,
    above: tuple[str, ...],
    kind: Role,
) -> TopologyDevice:
    registers = reader("PCIe ports and payload", lambda: port_registers(node, address)) or PortRegisters("")
    own = function or PciFunction(address, "", "", "")
    bridge = kind is Role.BRIDGE
    upward = registers.port_type == "upstream-port" or (not registers.port_type and len(above) % 2 == 1)
    group = reader("IOMMU groups", lambda: iommu_group(node, address), "")
    return TopologyDevice(
        address=address,
        role=kind,
        parent=above[-1] if above else "",
        host_bridge=reader("host bridges", lambda: root_bus(node, address)) or "",
        numa_node=reader("NUMA nodes of devices", lambda: numa_node(node, address)),
        port=registers.port_type,
        vendor=own.vendor,
        device=own.device,
        class_code=own.class_code,
        subsystem=own.subsystem,
        driver=own.driver,
        link=_link(node, reader, address, above) if upward or not bridge else DeviceLink(),
        payload_bytes=registers.payload_bytes,
        max_payload_bytes=registers.max_payload_bytes,
        read_request_bytes=registers.read_request_bytes,
        acs=_enforced(node, reader, address) if bridge else None,
        acs_needed=masks_of_layout(node).get(address, "") if bridge else "",
        ats_enabled=None if bridge else reader("ATS", lambda: ats_enabled(node, address)),
        iommu_group=group,
        iommu_type=(reader("IOMMU types", lambda: iommu_type(node, address)) or "") if group else "",
        serial=(reader("serial numbers", lambda: serial_number(node, address)) or "") if not bridge else "",
        slot=registers.slot,
        physical_function=_physical_function(node, address) if kind is Role.NIC else "",
    )


def _link(node: Node, reader: _NodeReader, address: str, above: tuple[str, ...]) -> DeviceLink:
    """The link above a device; its maximum is that of the weaker end. None for a GPU whose memory NICs reach
    over C2C: its link carries none of it, so one lane is not a fault."""
    own = reader("PCIe links", lambda: link(node, address))
    if own is None:
        return DeviceLink()
    gpu = if_missing(None, gpu_at, node, address)
    if gpu is not None and is_behind_cpu(node, gpu):
        return DeviceLink(own.current_gt_per_s, own.current_width)
    speed, width = own.max_gt_per_s, own.max_width
    if above and (upper := reader("PCIe links", lambda: link(node, above[-1]))):
        speed, width = min(speed, upper.max_gt_per_s), min(width, upper.max_width)
    return DeviceLink(own.current_gt_per_s, own.current_width, speed, width)


def _enforced(node: Node, reader: _NodeReader, address: str) -> tuple[str, ...] | None:
    """The ACS bits that a port enforces, in lspci's words; () if none, None if not known."""

    def ask() -> tuple[str, ...]:
        found = acs(node, address)
        control = found.control if found else 0
        return tuple(name for bit, name in enumerate(ACS_BITS) if control & 1 << bit)

    nothing: tuple[str, ...] = ()
    return reader("ACS", ask, nothing)


def _physical_function(node: Node, address: str) -> str:
    """The physical function of a virtual function; empty for others."""
    folder = f"{ROOT}/{address}/physfn"
    return node.resolve(folder).rsplit("/", 1)[-1] if there(node, folder) else ""


def _host_bridges(tree: tuple[TopologyDevice, ...]) -> tuple[HostBridge, ...]:
    """Every root bus with devices, and the NUMA node that the first of them names."""
    found: dict[str, int | None] = {}
    for device in tree:
        if device.host_bridge and found.get(device.host_bridge) is None:
            found[device.host_bridge] = device.numa_node
    return tuple(HostBridge(bus, numa) for bus, numa in sorted(found.items()))


# -- ends ------------------------------------------------------------------------------------------


def _supported(node: Node, reader: _NodeReader, gpu: PciGpu) -> bool | None:
    """Whether a NIC can reach the GPU's memory on either path; None if not known."""
    paths = ("dmabuf", "peermem")
    support = [reader("support of GPUs", partial(gpu_support, node, gpu, path)) for path in paths]
    states = {found.state for found in support if found is not None}
    return True if "yes" in states else False if states == {"no"} else None


def _gpu(node: Node, reader: _NodeReader, gpu: PciGpu, index: int, ask_driver: bool) -> TopologyGpu:
    coherent = reader("C2C", lambda: is_coherent(node, gpu), False)
    return TopologyGpu(
        id=gpu.address,
        address=gpu.address,
        index=index,  # NVML orders GPUs by address
        name=reader("names of GPUs", lambda: product_name(node, gpu)) or "",
        compute_capability=reader("compute capability", lambda: compute_capability(node, gpu)),
        is_integrated=reader("whether GPUs have memory of their own", lambda: is_integrated(node, gpu)),
        c2c=C2C(None, None) if coherent else None,
        gdr=_supported(node, reader, gpu) if ask_driver else None,
        unusable=unusable_gpu(node, gpu, ask_driver=ask_driver) or "",
    )


def _nets(
    node: Node, reader: _NodeReader, hardware: tuple[RdmaDevice, ...], tree: tuple[TopologyDevice, ...]
) -> Iterator[Net]:
    """A net for each port; one without a name for each NIC without an RDMA device."""
    for nic in sorted(hardware, key=lambda nic: natural_sort_key(nic.name)):
        net = Net(
            id=nic.name,
            device=nic.name,
            address=nic.pci_address,
            driver=nic.driver,
            firmware=nic.firmware,
            guid=nic.sys_image_guid,
            node_guid=nic.node_guid,
            unusable=unusable_nic(node, nic) or "",
        )
        found = reader.all("ports", partial(ports, node, nic.name))
        if not found:
            yield net
        for position, port in enumerate(found):
            yield structs.replace(
                net,
                id=f"{nic.name}/{port.number}" if position else nic.name,
                number=port.number,
                rate_gbit_per_s=port.rate_gbit_per_s,
                state=port.state,
                phys_state=port.physical_state,
                link_layer=port.link_layer,
                netdev=if_missing("", netdev, node, nic.name, port.number),
                port_name=if_missing("", phys_port_name, node, nic.name, port.number),
            )
    named = {nic.pci_address for nic in hardware}
    for device in tree:
        if device.role is Role.NIC and device.address not in named:
            yield Net(id=device.address, device="", address=device.address)


def natural_sort_key(name: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts mlx5_2 before mlx5_10."""
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", name)
    )


# -- NVLink ----------------------------------------------------------------------------------------


def _stated(node: Node, found: tuple[PciGpu, ...]) -> Iterator[StatedPath]:
    """The cells of `nvidia-smi topo -m`, with addresses of GPUs, since NVML orders GPUs by address."""
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
    """A GPU with the NVLinks of the matrix: how many links are bonded towards each peer.

    More links in total than a GPU has mean that all go to a switch, as does a switch among the devices."""
    bonds = {
        cell.other: count
        for cell in stated
        if cell.one == gpu.id
        and cell.word.startswith("NV")
        and (count := whole_number(cell.word[2:])) is not None
    }
    if not stated:
        return gpu
    if bonds and (switches or sum(bonds.values()) > MOST_NVLINKS):
        links: tuple[NvLink, ...] = (NvLink("", max(bonds.values()), "068000"),)
    else:
        links = tuple(NvLink(other, count) for other, count in bonds.items())
    return structs.replace(gpu, nvlinks=links)
