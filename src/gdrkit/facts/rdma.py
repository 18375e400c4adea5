"""RDMA devices, their ports, and their distance to each GPU.

Source of the files: Linux drivers/infiniband/core/sysfs.c; Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.pci import ROOT, PciGpu, bridges_above, gpus, numa_node, root_bus
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, first_collected, if_absent, if_missing

CLASS = "sys/class/infiniband"
SOFTWARE = ("rxe", "siw")  # names used with `rdma link add` in every manual; see rdma-link(8)


class RdmaDevice(Struct, frozen=True, order=True):
    """One RDMA device. Empty: the source does not show it, or the device does not have it."""

    name: str
    pci_address: str = ""
    driver: str = ""  # of the PCI function: mlx5_core, ice, efa
    board_id: str = ""
    firmware: str = ""
    node_guid: str = ""
    sys_image_guid: str = ""
    virtual: bool = False  # implemented in software: rxe, siw


class RdmaPort(Struct, frozen=True, order=True):
    """One port of an RDMA device."""

    device: str
    number: int
    state: str  # ACTIVE, DOWN, INIT, ARMED
    physical_state: str  # LinkUp, Disabled, Polling
    rate_gbit_per_s: float
    link_layer: str  # InfiniBand, Ethernet


class Pair(Struct, frozen=True, order=True):
    """One GPU, by address, and one RDMA device, by name."""

    gpu: str
    device: str


DEVICE_NAME = regex(r"[\w.][\w.@+-]{0,62}", re.ASCII)
"""What drivers and udev name a device (IB_DEVICE_NAME_MAX is 64). Any other name did not come from a kernel,
and would end up in commands and settings."""


DEVICES_LIMIT, PAIRS_LIMIT = 1024, 4096
"""The most RDMA devices, and pairs with GPUs, that are judged: 16 GPUs and 40 ports are the largest machine,
8 GPUs and 500 virtual functions are possible. Each pair takes about 1 ms."""

_MAPPED = "0000:0000:0000:0000:0000:ffff:"
_INDEX = regex(r"[0-9]{1,5}")
"""The number of a port or of a GID: both are at most 16 bits wide."""


# -- devices ---------------------------------------------------------------------------------------


@fact
def rdma_devices(node: Node) -> tuple[RdmaDevice, ...]:
    """Every RDMA device; () where there are none."""

    def in_sysfs() -> tuple[RdmaDevice, ...]:
        names = if_absent((), node.list, CLASS)  # absent: ib_core is not loaded, or nothing registered
        _check_count(len(names))
        return tuple(_device(node, name) for name in names if DEVICE_NAME.fullmatch(name))

    def in_text() -> tuple[RdmaDevice, ...]:
        from gdrkit.facts.verbs_text import listed_rdma_devices  # where sysfs was not collected

        _check_count(len(listed_rdma_devices(node)))
        return tuple(
            RdmaDevice(
                d.name,
                board_id=d.board_id,
                firmware=d.firmware,
                node_guid=d.node_guid,
                sys_image_guid=d.sys_image_guid,
                virtual=d.name.startswith(SOFTWARE),
            )
            for d in listed_rdma_devices(node)
            if DEVICE_NAME.fullmatch(d.name)
        )

    return first_collected(in_sysfs, in_text)


def _check_count(devices: int) -> None:
    if devices > DEVICES_LIMIT:
        raise TargetError(
            f"{devices} RDMA devices are more than one machine has",
            "check that all files are of one machine",
        )


def _device(node: Node, name: str) -> RdmaDevice:
    folder = f"{CLASS}/{name}"
    path = node.resolve(folder)
    if "/" in path and not path.startswith("sys/devices/"):  # a copy without the links of the class
        path = if_missing("", node.resolve, f"{folder}/device")
    addresses = re.findall(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/|$)", path)
    address = addresses[-1] if addresses else ""

    def driver() -> str:
        link = f"{ROOT}/{address}/driver"
        return node.resolve(link).rsplit("/", 1)[-1] if node.exists(link) else ""

    return RdmaDevice(
        name,
        address,
        driver=if_missing("", driver) if address else "",
        board_id=if_missing("", lambda: node.text(f"{folder}/board_id").strip()),
        firmware=if_missing("", lambda: node.text(f"{folder}/fw_ver").strip()),
        node_guid=if_missing("", lambda: node.text(f"{folder}/node_guid").strip()),
        sys_image_guid=if_missing("", lambda: node.text(f"{folder}/sys_image_guid").strip()),
        virtual="/virtual/" in path or name.startswith(SOFTWARE),
    )


@fact
def rdma_device(node: Node, name: str) -> RdmaDevice:
    """The RDMA device with this name. Raises EvidenceAbsent if there is none."""
    for device in rdma_devices(node):
        if device.name == name:
            return device
    raise EvidenceAbsent(Missing(f"RDMA device {name}", MissingReason.ABSENT, f"ls /{CLASS}"))


@fact
def nics(node: Node) -> tuple[RdmaDevice, ...]:
    """The RDMA devices that are hardware."""
    return tuple(device for device in rdma_devices(node) if not device.virtual)


@fact
def nic_address(node: Node, name: str) -> str:
    """The PCI address of an RDMA device. Raises EvidenceAbsent for one implemented in software,
    EvidenceMissing if it is not known."""
    device = rdma_device(node, name)
    if device.pci_address:
        return device.pci_address
    link = f"{CLASS}/{name}/device"
    if device.virtual:
        raise EvidenceAbsent(Missing(link, MissingReason.ABSENT, f"readlink -f {quoted(f'/{link}')}"))
    raise not_collected(link, f"readlink -f {quoted(f'/{link}')}")


@fact
def is_virtual_function(node: Node, name: str) -> bool:
    """Whether an RDMA device is a virtual function of another PCI function."""
    return node.exists(f"{ROOT}/{nic_address(node, name)}/physfn")


@fact
def character_device(node: Node, name: str) -> str:
    """The character device through which programs access an RDMA device: dev/infiniband/uverbs0.

    Source: drivers/infiniband/core/uverbs_main.c, the attribute `ibdev`. Raises EvidenceAbsent without
    ib_uverbs."""
    folder = "sys/class/infiniband_verbs"
    for entry in node.list(folder):
        if entry.startswith("uverbs") and node.text(f"{folder}/{entry}/ibdev").strip() == name:
            return f"dev/infiniband/{entry}"
    raise EvidenceAbsent(
        Missing(f"uverbs of {name}", MissingReason.ABSENT, "grep . /sys/class/infiniband_verbs/*/ibdev")
    )


@fact
def has_device_file(node: Node, name: str) -> bool:
    """Whether the character device of an RDMA device is there: a container is given each by itself."""
    return node.exists(character_device(node, name))


# -- ports -----------------------------------------------------------------------------------------


@fact
def ports(node: Node, device: str) -> tuple[RdmaPort, ...]:
    """The ports of a device, sorted by number."""

    def in_sysfs() -> tuple[RdmaPort, ...]:
        numbers = sorted(int(n) for n in node.list(f"{CLASS}/{device}/ports") if _INDEX.fullmatch(n))
        return tuple(_port(node, device, number) for number in numbers)

    def in_text() -> tuple[RdmaPort, ...]:
        from gdrkit.facts.verbs_text import listed_rdma_device

        found = listed_rdma_device(node, device)
        return tuple(
            RdmaPort(device, p.number, p.state, p.physical_state, p.rate_gbit_per_s, p.link_layer)
            for p in found.ports
        )

    return first_collected(in_sysfs, in_text)


def _port(node: Node, device: str, number: int) -> RdmaPort:
    folder = f"{CLASS}/{device}/ports/{number}"
    state = node.text(f"{folder}/state").strip()
    physical = if_missing("", node.text, f"{folder}/phys_state").strip()  # says why it is down, not that
    node.cite(f"{folder}/state", text=state)
    if physical:
        node.cite(f"{folder}/phys_state", text=physical)
    return RdmaPort(
        device,
        number,
        parse_state(state),
        parse_state(physical) if physical else "",
        parse_rate(node.text(f"{folder}/rate")),
        node.text(f"{folder}/link_layer").strip(),
    )


def parse_state(text: str) -> str:
    """`4: ACTIVE` as ACTIVE. Source: sysfs.c, state_show() and phys_state_show()."""
    number, colon, word = text.strip().partition(": ")
    if not colon or not number.isdigit() or not word:
        raise FormatError(f"not a port's state: {text[:30]!r}")
    return word


def parse_rate(text: str) -> float:
    """`400 Gb/sec (4X NDR)` as 400.0, in Gbit/s.

    Source: sysfs.c, rate_show(). It prints SDR for any speed unknown to the kernel."""
    found = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text)
    if found is None:
        raise FormatError(f"not a port's rate: {text[:30]!r}")
    return float(found[1])


@fact
def netdev(node: Node, device: str, number: int) -> str:
    """The network interface of a port. Raises EvidenceAbsent where it has none."""
    try:
        return node.text(f"{CLASS}/{device}/ports/{number}/gid_attrs/ndevs/0").strip()
    except EvidenceMissing:
        names = node.list(f"{ROOT}/{nic_address(node, device)}/net")
    if not names:
        raise EvidenceAbsent(
            Missing(
                f"interface of {device}/{number}", MissingReason.ABSENT, f"rdma link show {quoted(device)}"
            )
        )
    return names[min(number, len(names)) - 1]


@fact
def phys_port_name(node: Node, device: str, number: int) -> str:
    """The name of the physical port, `p0`, or of a virtual function, `pf0vf1`.

    Source: Documentation/ABI/testing/sysfs-class-net."""
    return node.text(f"sys/class/net/{netdev(node, device, number)}/phys_port_name").strip()


@fact
def gids(node: Node, device: str, number: int) -> tuple[tuple[int, str, str], ...]:
    """The GIDs of a port: index, value, and type (IB/RoCE v1, RoCE v2). Empty entries are left out."""
    folder = f"{CLASS}/{device}/ports/{number}"
    found = []
    for index in sorted(int(name) for name in node.list(f"{folder}/gids") if _INDEX.fullmatch(name)):
        value = node.text(f"{folder}/gids/{index}").strip()
        if value.strip("0:"):
            found.append((index, value, _gid_kind(node, folder, index)))
    return tuple(found)


@fact
def roce_v2_gid(node: Node, device: str, number: int) -> tuple[int, int] | None:
    """The first GID of RoCE v2 with an IPv4 address, which NCCL takes: its index, and the address as a
    number; None if the port has none. Source: RFC 4291, 2.5.5.2, IPv4-mapped IPv6 addresses."""
    for index, value, kind in gids(node, device, number):
        if kind == "RoCE v2" and value.startswith(_MAPPED):
            return index, int(value.removeprefix(_MAPPED).replace(":", ""), 16)
    return None


def _gid_kind(node: Node, folder: str, index: int) -> str:
    return if_missing("", lambda: node.text(f"{folder}/gid_attrs/types/{index}").strip())


# -- pairs -----------------------------------------------------------------------------------------


@fact
def pairs(node: Node) -> tuple[Pair, ...]:
    """Every GPU with every RDMA device. Raises TargetError for more pairs than any machine has."""
    some_gpus = gpus(node)
    return _paired(some_gpus, rdma_devices(node)) if some_gpus else ()


@fact
def hardware_pairs(node: Node) -> tuple[Pair, ...]:
    """Every GPU with every RDMA device that is hardware: only these have a path between them."""
    some_gpus = gpus(node)
    return _paired(some_gpus, nics(node)) if some_gpus else ()


def _paired(some_gpus: tuple[PciGpu, ...], devices: tuple[RdmaDevice, ...]) -> tuple[Pair, ...]:
    if len(some_gpus) * len(devices) > PAIRS_LIMIT:
        raise TargetError(
            f"{len(some_gpus)} GPUs and {len(devices)} RDMA devices are more than one machine has",
            "check that all files are of one machine",
        )
    return tuple(Pair(gpu.address, device.name) for gpu in some_gpus for device in devices)


DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first


@fact
def distance(node: Node, pair: Pair) -> str:
    """PIX, PXB, PHB, NODE or SYS, as in `nvidia-smi topo -m`: one switch between them, several switches, one
    host bridge, one NUMA node, several NUMA nodes.

    Computed from the paths in sysfs and the NUMA nodes. Raises EvidenceMissing where they are not known. In
    a virtual machine, it is the distance in the hypervisor's emulated tree."""

    def by_path() -> str:
        return distance_of(node, pair.gpu, nic_address(node, pair.device))

    def by_smi() -> str:
        from gdrkit.facts.nvidia_smi import smi_topology

        index = [gpu.address for gpu in gpus(node)].index(pair.gpu)  # NVML counts GPUs by address
        node.cite("nvidia-smi topo -m", f"GPU{index}, {pair.device}", confidence=Confidence.LIKELY)
        cell = smi_topology(node).cells.get((f"GPU{index}", pair.device), "")
        if cell not in DISTANCES:
            raise not_collected(f"distance of {pair.gpu} and {pair.device}", "nvidia-smi topo -m")
        return cell

    return first_collected(by_path, by_smi)


def distance_of(node: Node, gpu: str, nic: str) -> str:
    """The distance of two PCI functions, in the same words."""
    shared, gpu_side, nic_side = below_common_bridge(node, gpu, nic)
    if shared:
        # Each side's first port belongs to the common switch; any further port is another switch.
        return "PIX" if max(len(gpu_side), len(nic_side)) <= 1 else "PXB"
    if root_bus(node, gpu) == root_bus(node, nic):
        return "PHB"
    numa_nodes = numa_node(node, gpu), numa_node(node, nic)
    if None in numa_nodes and _one_numa_node(node):
        return "NODE"
    if None in numa_nodes:
        source = f"NUMA nodes of {gpu} and {nic}"
        raise EvidenceMissing(Missing(source, MissingReason.UNDECIDED, "nvidia-smi topo -m"))
    return "NODE" if numa_nodes[0] == numa_nodes[1] else "SYS"


NEAR = ("PIX", "PXB")
"""Below a common switch: traffic does not pass through the CPU."""


@fact
def below_one_switch(node: Node, pair: Pair) -> bool:
    """Whether the distance of a pair is PIX or PXB. NUMA nodes need not be known for that."""
    return first_collected(
        lambda: bool(below_common_bridge(node, pair.gpu, nic_address(node, pair.device))[0]),
        lambda: distance(node, pair) in NEAR,
    )


def _one_numa_node(node: Node) -> bool:
    """Whether the machine has only one NUMA node, so that firmware need not define the node of a device."""
    return if_missing(False, lambda: node.text("sys/devices/system/node/online").strip() == "0")


def below_common_bridge(
    node: Node, one: str, other: str
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """The bridges above both devices, root port first, and those above only the one, and only the other."""
    first, second = bridges_above(node, one), bridges_above(node, other)
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return first[:count], first[count:], second[count:]
