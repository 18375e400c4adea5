"""PCI devices in sysfs. Formats: Linux drivers/pci/pci-sysfs.c, drivers/iommu/iommu.c."""

from __future__ import annotations

import zlib

from machines import config_space
from machines.config_space import Space
from machines.hardware import BRIDGES
from machines.machine import Function, Machine
from machines.tree import Tree

MIB = 1 << 20
_OTHER = {
    "virtio-net": (0x1AF4, 0x1041, 0x020000),
    "nvme": (0x144D, 0xA808, 0x010802),
    "igc": (0x8086, 0x15F3, 0x020000),
    "data-direct": (0x15B3, 0x2100, 0x120000),
    "wsl-gpu": (0x1414, 0x008E, 0x030200),
}


def real(machine: Machine) -> list[Function]:
    """The functions that are PCI functions: a software RDMA device is none."""
    return [function for function in machine.functions if function.part != "rxe"]


def folder(machine: Machine, function: Function) -> str:
    """Its folder in sys/devices."""
    chain = [bridge.address for bridge in reversed(machine.chain(function))]
    root = (*chain, function.address)[0]
    return "/".join((f"sys/devices/pci{root[:7]}", *chain, function.address))


def identity(function: Function) -> tuple[int, int, int]:
    """Vendor, device and class."""
    if gpu := function.gpu:
        return 0x10DE, gpu.device, 0x030000 if gpu.is_vga else 0x030200
    if nic := function.nic:
        return nic.vendor, nic.device, 0x020000 if nic.ethernet else 0x020700
    if bridge := BRIDGES.get(function.part):
        return bridge.vendor, bridge.device, 0x060400
    return _OTHER[function.part]


def links(function: Function) -> tuple[tuple[str, int], tuple[str, int]]:
    """The link as it runs, and the largest one that this end supports: GT/s and lanes."""
    product = function.gpu or function.nic or BRIDGES.get(function.part)
    most = function.most or (product.link if product else "8.0x4")
    now = function.link or most

    def split(text: str) -> tuple[str, int]:
        return text.split("x")[0], int(text.split("x")[1])

    return split(now), split(most)


def bars(function: Function) -> list[tuple[int, int]]:
    """Register and size in MiB of each memory region."""
    if gpu := function.gpu:
        size = gpu.bar1_mib if function.bar1_mib < 0 else function.bar1_mib
        old = gpu.architecture in ("volta", "turing", "ampere", "ada", "pascal")
        return [(0, 16), *([(1 if old else 2, size)] if size else []), (3 if old else 4, 32)]
    return [(0, 32)] if function.nic else []


def buses(machine: Machine, function: Function) -> tuple[int, int, int]:
    """Its own bus, and a bridge's first and last bus below it; 0 where there is none."""
    bridge = function.part in BRIDGES
    below = [other for other in machine.functions if function in machine.chain(other)] if bridge else []
    numbers = {int(other.address[5:7], 16) for other in below}
    return int(function.address[5:7], 16), min(numbers, default=0), max(numbers, default=0)


def write(tree: Tree, machine: Machine) -> None:
    """Write every function, its driver and its IOMMU group."""
    tree.folders |= {"sys/bus/pci/devices", "sys/class/iommu", "sys/kernel/iommu_groups"}
    base = 0x2000_0000_0000
    for function in real(machine):
        placed = []
        for register, mib in bars(function):
            base = -(-base // (mib * MIB)) * mib * MIB
            placed.append((register, base, mib * MIB, True))
            base += mib * MIB
        _function(tree, machine, function, placed)
    if machine.iommu != "off":
        unit = "ivhd0" if machine.cpu == "amd" else "dmar0" if machine.cpu == "intel" else "smmu3.0x11000000"
        tree.folders.add(f"sys/class/iommu/{unit}")
        for number, (_, group) in enumerate(sorted(_groups(machine).items())):
            at = f"sys/kernel/iommu_groups/{number}"
            tree.line(f"{at}/type", machine.iommu)
            for function in group:
                tree.link(f"{at}/devices/{function.address}", folder(machine, function))
                tree.link(f"{folder(machine, function)}/iommu_group", at)


def _groups(machine: Machine) -> dict[str, list[Function]]:
    """Functions that the IOMMU cannot keep apart: those below ports that do not redirect."""
    groups: dict[str, list[Function]] = {}
    for function in real(machine):
        key = function.group or function.address
        if not function.group:
            for bridge in machine.chain(function):
                kind = BRIDGES[bridge.part].kind
                if not {"RR", "CR", "UF"} <= set(bridge.acs) and kind != "root":
                    key = bridge.address
        groups.setdefault(key, []).append(function)
    return groups


def _function(
    tree: Tree, machine: Machine, function: Function, placed: list[tuple[int, int, int, bool]]
) -> None:
    at = folder(machine, function)
    vendor, device, kind = identity(function)
    bridge = BRIDGES.get(function.part)
    subsystem = (vendor, device ^ 0x1234)
    tree.link(f"sys/bus/pci/devices/{function.address}", at)
    alias = f"pci:v{vendor:08X}d{device:08X}sv{subsystem[0]:08X}sd{subsystem[1]:08X}"
    alias += f"bc{kind >> 16:02X}sc{kind >> 8 & 0xFF:02X}i{kind & 0xFF:02X}"
    now, most = links(function)
    values: dict[str, object] = {
        "vendor": f"0x{vendor:04x}",
        "device": f"0x{device:04x}",
        "class": f"0x{kind:06x}",
        "revision": "0xa1",
        "subsystem_vendor": f"0x{subsystem[0]:04x}",
        "subsystem_device": f"0x{subsystem[1]:04x}",
        "numa_node": function.numa,
        "local_cpulist": "0-31" if function.numa < 1 else "32-63",
        "enable": 1,
        "modalias": alias,
        "power_state": "D0",
        "ari_enabled": 0,
    }
    if not (function.part == "GB10" or (machine.virtual and not bridge and not function.above)):
        values |= {
            # of ones, the speed is none that is defined, and the width six bits: pci-sysfs.c
            "current_link_speed": f"{now[0]} GT/s PCIe" if function.answers else "Unknown",
            "current_link_width": now[1] if function.answers else 63,
            "max_link_speed": f"{most[0]} GT/s PCIe",
            "max_link_width": most[1],
        }
    for name, value in values.items():
        tree.line(f"{at}/{name}", value)
    driver = function.bound
    text = f"DRIVER={driver}\n" if driver else ""
    text += f"PCI_CLASS={kind:X}\nPCI_ID={vendor:04X}:{device:04X}\nPCI_SLOT_NAME={function.address}\n"
    tree.file(f"{at}/uevent", text + f"MODALIAS={alias}\n")
    if driver:
        tree.link(f"{at}/driver", f"sys/bus/pci/drivers/{driver}")
        tree.link(f"sys/bus/pci/drivers/{driver}/{function.address}", at)
    tree.file(f"{at}/resource", _resource(placed))
    tree.file(f"{at}/config", _config(machine, function, placed))


def _config(machine: Machine, function: Function, placed: list[tuple[int, int, int, bool]]) -> bytes:
    """What reads of it return.

    Nothing answers for a device that is gone, and the root complex completes such reads with ones: PCI
    Express Base 5.0, 2.3.2. A virtual function has no id of its own: Single Root I/O Virtualization 1.1,
    3.4.1.1 and 3.4.1.2."""
    vendor, device, kind = identity(function)
    bridge = BRIDGES.get(function.part)
    if not function.answers:
        return b"\xff" * 4096
    now, most = links(function)
    usual = 4096 if function.nic else 512
    space = Space(
        vendor,
        device,
        kind,
        0xA1,
        (vendor, device ^ 0x1234),
        bridge.kind if bridge else "endpoint",
        now,
        most,
        placed,
        buses(machine, function),
        function.read_request or usual,
        function.acs if bridge and bridge.kind != "up" else None,
        False if function.nic else None,
        zlib.crc32(function.address.encode()) << 8 if function.nic else 0,
    )
    content = config_space.build(space)
    return content if function.own_id else b"\xff" * 4 + content[4:]


def _resource(placed: list[tuple[int, int, int, bool]]) -> str:
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7
    for register, address, size, _ in placed:
        lines[register] = f"0x{address:016x} 0x{address + size - 1:016x} 0x000000000014220c"
    return "\n".join(lines) + "\n"
