"""A node as a graph: NUMA nodes, host bridges, PCIe ports and devices, ports of NICs, NVLink, C2C.

The types are the same for every source; what a source does not show is None or empty, and never guessed.
A source with registers shows every port of a switch; NCCL's files show only its upstream port.
"""

from __future__ import annotations

import enum
from functools import cached_property

from msgspec import Struct

from gdrkit.facts.pci_text import ACS_BITS
from gdrkit.formats.errors import FormatError


class TopologySource(enum.StrEnum):
    """The sources of topologies."""

    SYSFS = "sysfs"
    LSPCI = "lspci"
    LSPCI_TREE = "lspci-tree"  # the drawing: no NUMA, no links, no ids
    NVIDIA_SMI_TOPO = "nvidia-smi-topo"  # a matrix: no addresses, no tree
    NCCL_XML = "nccl-xml"
    NCCL_LOG = "nccl-log"  # a tree in a log of NCCL's
    HWLOC_XML = "hwloc-xml"


OF_JOB = "this is the part of one host that a job used: the node may have more GPUs and NICs"
"""What a tree in a log of NCCL holds: NCCL trims it to the devices of the job's ranks (graph/topo.cc,
ncclTopoTrimSystem())."""


class SmiPath(enum.StrEnum):
    """The path types of `nvidia-smi topo -m`, nearest first; see its legend."""

    PIX = "PIX"  # at most one PCIe bridge
    PXB = "PXB"  # several bridges, no host bridge
    PHB = "PHB"  # one host bridge
    NODE = "NODE"  # several host bridges of one NUMA node
    SYS = "SYS"  # several NUMA nodes


class NcclPath(enum.StrEnum):
    """NCCL's path types, nearest first. Source: NCCL src/include/graph.h, topoPathTypeStr."""

    LOC = "LOC"
    NVL = "NVL"
    NVB = "NVB"
    C2C = "C2C"
    PIX = "PIX"
    PXB = "PXB"
    P2C = "P2C"
    PXN = "PXN"
    PHB = "PHB"
    SYS = "SYS"
    NET = "NET"
    DIS = "DIS"


class Role(enum.StrEnum):
    """The role of a PCI function in a graph."""

    BRIDGE = "bridge"
    GPU = "gpu"
    NIC = "nic"
    NVSWITCH = "nvswitch"
    OTHER = "other"


class DeviceLink(Struct, frozen=True):
    """The PCIe link above a device, and the maximum of both its ends. None: not known."""

    gt_per_s: float | None = None
    width: int | None = None
    max_gt_per_s: float | None = None
    max_width: int | None = None
    gbyte_per_s: float | None = None  # current rate without encoding, if a source shows only this

    @property
    def is_degraded(self) -> bool | None:
        """Whether the link is narrower than both its ends allow. (A lower speed may be an idle link.)"""
        return None if self.width is None or self.max_width is None else self.width < self.max_width

    @property
    def is_slow(self) -> bool | None:
        """Whether the link is slower than both its ends allow, as with idle GPUs, which save power."""
        return None if None in (self.gt_per_s, self.max_gt_per_s) else self.gt_per_s < self.max_gt_per_s  # type: ignore[operator]


class TopologyCpu(Struct, frozen=True, kw_only=True):
    """One NUMA node with processors. `numa_node` is None if the firmware names none (NCCL writes -1)."""

    numa_node: int | None
    arch: str = ""  # x86_64, arm64, ppc64
    vendor: str = ""  # GenuineIntel, AuthenticAMD, ARM
    family: int | None = None
    model: int | None = None
    name: str = ""  # "Intel(R) Xeon(R) Platinum 8480C"
    affinity: str = ""  # processors as a mask, highest first: "ffffffff,ffffffff"
    host_hash: str = ""  # NCCL's; only in its files


class HostBridge(Struct, frozen=True):
    """One root bus, "0000:15"."""

    bus: str
    numa_node: int | None = None


class TopologyDevice(Struct, frozen=True, kw_only=True):
    """One PCI function. Empty and None: the source does not show it."""

    address: str
    role: Role
    parent: str = ""  # the port or bridge directly above; empty below a host bridge
    host_bridge: str = ""  # the root bus, "0000:15"
    numa_node: int | None = None
    port: str = ""  # root-port, upstream-port, downstream-port, endpoint, ...
    vendor: str = ""  # four digits
    device: str = ""
    class_code: str = ""  # six digits
    subsystem: str = ""  # "10de:18bf"
    name: str = ""
    driver: str = ""
    link: DeviceLink = DeviceLink()
    payload_bytes: int | None = None  # MaxPayload now
    max_payload_bytes: int | None = None  # what the device supports
    read_request_bytes: int | None = None
    acs: tuple[str, ...] | None = None  # the bits set in ACSCtl, in lspci's words; () for none or no ACS
    acs_needed: str = ""  # the mask of bits that its layout needs, `xx110x1`; empty: an ordinary port
    ats_enabled: bool | None = None
    iommu_group: str | None = None  # empty: not behind an IOMMU
    iommu_type: str = ""  # identity, DMA, DMA-FQ, ...
    serial: str = ""  # PCI Express device serial number
    slot: str = ""  # name of the physical slot, as firmware has it
    physical_function: str = ""  # its address, if this is a virtual function

    @property
    def redirects(self) -> bool | None:
        """Whether it sends requests between peers up to the root complex; a port of which the layout needs
        certain bits: whether they are not those."""
        if self.acs_needed:
            return None if self.acs is None else bool(self.acs_wrong)
        return None if self.acs is None else "ReqRedir" in self.acs

    @property
    def acs_wrong(self) -> str:
        """The bits that its layout needs otherwise, `ReqRedir-`; empty if it needs none, or not known."""
        needed = zip(ACS_BITS, reversed(self.acs_needed), strict=False)
        return " ".join(
            f"{name}{'+' if flag == '1' else '-'}"
            for name, flag in needed
            if self.acs is not None and flag in "01" and (name in self.acs) != (flag == "1")
        )


class NvLink(Struct, frozen=True):
    """NVLink from a GPU to a peer: a GPU's address or id, a switch's address; "" for any switch."""

    target: str
    count: int
    target_class: str = ""  # PCI class, "068000" for a switch
    gbyte_per_s: float | None = None  # of one link in one direction, as the driver states it


class C2C(Struct, frozen=True):
    """NVLink-C2C between a GPU and its CPU."""

    mbyte_per_s: int | None  # of one link, in NCCL's unit
    count: int | None


class TopologyGpu(Struct, frozen=True, kw_only=True):
    """One GPU. `id` is its address, or without one the name in the source, GPU0."""

    id: str
    address: str = ""
    numa_node: int | None = None  # set only without an address
    index: int | None = None  # as NVML and NCCL count
    name: str = ""
    device: str = ""  # its PCI id, if the source shows it without the PCI function
    compute_capability: int | None = None  # 90 for 9.0
    is_integrated: bool | None = None
    nvlinks: tuple[NvLink, ...] | None = None
    c2c: C2C | None = None
    rank: int | None = None  # NCCL's
    gdr: bool | None = None  # whether NCCL found GPUDirect RDMA supported
    unusable: str = ""  # the code of why no program can use it; empty if one can, or if not known
    mlopart: int | None = None  # NCCL >= 2.30.7: number of a GPU partition


class Net(Struct, frozen=True, kw_only=True):
    """One port of an RDMA device, or one interface that NCCL calls a net."""

    id: str  # "mlx5_0", "mlx5_0/2" for further ports
    device: str  # "mlx5_0"
    address: str = ""  # of its PCI function; empty for devices without a PCI function
    numa_node: int | None = None  # set only without an address
    number: int | None = None  # of the port
    rate_gbit_per_s: float | None = None
    state: str = ""  # ACTIVE, DOWN
    phys_state: str = ""  # LinkUp, Polling, Disabled
    link_layer: str = ""  # InfiniBand, Ethernet
    netdev: str = ""
    port_name: str = ""  # of the physical port: p0, pf0vf1
    driver: str = ""
    firmware: str = ""
    guid: str = ""  # sys_image_guid, one per card: "0x..." in NCCL's files, "e09d:..." in sysfs
    node_guid: str = ""
    is_virtual: bool = False  # made by software: rxe, siw
    unusable: str = ""  # the code of why no program can use it; empty if one can, or if not known
    nccl: NcclNet | None = None

    @property
    def is_down(self) -> bool:
        """Whether the port is known not to be active."""
        return self.state not in ("", "ACTIVE")

    @property
    def state_words(self) -> str:
        """The state of the port, and of the link below it where that says more: DOWN, Disabled."""
        return f"{self.state}, {self.phys_state}" if self.is_down and self.phys_state else self.state


class NcclNet(Struct, frozen=True):
    """Attributes of a net that only NCCL's files have, as written there; empty: not written."""

    dev: str = ""
    latency: str = ""
    maxconn: str = ""
    gdr: str = ""
    coll: str = ""
    net: str = ""
    gin: str = ""
    rma: str = ""
    rail: str = ""
    plane: str = ""
    keep: str = ""


class StatedPath(Struct, frozen=True):
    """A path type stated by the source: one cell of a matrix."""

    one: str
    other: str
    word: str  # PIX, NODE, NV18, ...


class PeerLink(Struct, frozen=True):
    """A link between two PCIe switches outside the tree: NCCL's `pcilink`, for Broadcom switches."""

    one: str
    other: str


PAIRS_LIMIT = 256 * 256
GPUS_LIMIT = 1024
"""The largest NVLink domain that is sold has 72 GPUs, the largest node 16 GPUs and some 40 ports."""
NETS_LIMIT = 1024
"""As many as devices in facts/rdma.py. NCCL searches a path between any two, which takes 5 s for so many."""
NUMA_LIMIT = 128
"""With processors: twice those of 16 sockets with four each. NCCL links each one with each."""
DEVICES_LIMIT = 4096
"""PCI functions: those of all ports, and the bridges above them."""


class Topology(Struct, frozen=True, kw_only=True, dict=True):
    """One node. Devices are in the order of their source, parents before children."""

    origin: TopologySource
    cpus: tuple[TopologyCpu, ...] = ()
    host_bridges: tuple[HostBridge, ...] = ()
    devices: tuple[TopologyDevice, ...] = ()
    gpus: tuple[TopologyGpu, ...] = ()
    nets: tuple[Net, ...] = ()
    peer_links: tuple[PeerLink, ...] = ()
    stated: tuple[StatedPath, ...] = ()
    shows_ports: bool = False  # root ports and downstream ports are among the devices
    notes: tuple[str, ...] = ()  # what the source does not show
    nets_known: bool = True  # false: that none is listed does not say that there is none

    def __post_init__(self) -> None:
        """Raises FormatError for more devices than any machine has: each pair is judged by itself."""
        gpus, nets = len(self.gpus), len(self.nets)
        if gpus * nets > PAIRS_LIMIT or gpus > GPUS_LIMIT:
            raise FormatError(f"{gpus} GPUs and {nets} NIC ports are more than one machine has")
        for parts, limit, what in (
            (self.nets, NETS_LIMIT, "NIC ports"),
            (self.cpus, NUMA_LIMIT, "NUMA nodes"),
            (self.devices, DEVICES_LIMIT, "PCI functions"),
        ):
            if len(parts) > limit:
                raise FormatError(f"{len(parts)} {what} are more than one machine has")

    @cached_property
    def by_address(self) -> dict[str, TopologyDevice]:
        return {device.address: device for device in self.devices}

    @cached_property
    def below(self) -> dict[str, tuple[TopologyDevice, ...]]:
        """The devices directly below each device, by its address; those below host bridges under ""."""
        found: dict[str, list[TopologyDevice]] = {}
        for device in self.devices:
            found.setdefault(device.parent, []).append(device)
        return {address: tuple(devices) for address, devices in found.items()}

    def above(self, address: str) -> tuple[TopologyDevice, ...]:
        """The ports and bridges above a device, the one below the host bridge first; () where unknown."""
        chain: list[TopologyDevice] = []
        device = self.by_address.get(address)
        while device is not None and device.parent:
            device = self.by_address.get(device.parent)
            if device is not None:
                chain.append(device)
        return tuple(reversed(chain))

    def numa_node(self, device: TopologyGpu | Net) -> int | None:
        """The NUMA node nearest to a GPU or a port."""
        if not device.address:
            return device.numa_node
        found = self.by_address.get(device.address)
        return found.numa_node if found else None
