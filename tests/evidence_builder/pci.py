"""The PCI tree of sysfs, built from an outline.

    0000:15:01.0 spr-root numa=0
      0000:16:00.0 pex89-up
        0000:17:00.0 pex89-down acs=RR,CR,UF
          0000:1b:00.0 h100-sxm
        0000:17:01.0 pex89-down
          0000:18:00.0 cx7-ib rdma=mlx5_0 link=8.0x4

Indentation shows the tree. Attributes: `link` (the current link), `max` (the largest supported one), `acs`
(the bits that are set; `acs=absent` for a port without the capability), `numa`, `mrrs` in bytes,
`ats=on` or `absent`, `driver=none`, `group` for the IOMMU group, `answers=no` for a device whose
configuration space reads as
ones, `id=ffff` for a virtual function without an id of its own, `power` (D0, D3cold), and those that
tests/evidence_builder/rdma.py reads.
Source of names and formats: Linux drivers/pci/pci-sysfs.c, Documentation/ABI/testing/sysfs-bus-pci."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.evidence_builder import config_space
from tests.evidence_builder.config_space import Bar, Link
from tests.evidence_builder.parts import MIB, PARTS, Part
from tests.evidence_builder.tree import Tree


class Device(NamedTuple):
    """One function and its position in the tree."""

    address: str
    part: Part
    attributes: dict[str, str]
    above: tuple[str, ...]  # addresses, root port first
    below: tuple[str, ...]  # buses of everything that hangs below, for bridges

    @property
    def folder(self) -> str:
        root = (*self.above, self.address)[0]
        return "/".join((f"sys/devices/pci{root[:7]}", *self.above, self.address))

    @property
    def ids(self) -> tuple[int, int, int, int]:
        vendor, device, subvendor, subdevice = (int(number, 16) for number in self.part.ids.split(":"))
        return vendor, device, subvendor, subdevice


def outline(spec: Mapping[str, Any]) -> str:
    """The complete outline of a node: its own lines, and each repeated block once per root bus.

    In a block, `{b0}` is the root bus, `{b1}` the next bus and so on, `{i}` counts
    (`{twice}` and `{once_more}` for two of a kind in one block), `{numa}` is the NUMA node."""
    text = spec.get("outline", "")
    for block in spec.get("repeat", ()):
        buses = block["buses"]
        for i, bus in enumerate(buses):
            names = {f"b{step}": f"{int(bus, 16) + step:02x}" for step in range(16)}
            names |= {"twice": str(2 * i), "once_more": str(2 * i + 1)}
            numa = i * block.get("numa_nodes", 1) // len(buses)
            text += block["outline"].format(i=i + block.get("first", 0), numa=numa, **names)
    return text


def parse(text: str) -> tuple[Device, ...]:
    """Every device, in the order of the outline."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    devices: list[Device] = []
    stack: list[tuple[int, str]] = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        address, part, *more = line.split()
        while stack and stack[-1][0] >= indent:
            stack.pop()
        above = tuple(held for _, held in stack)
        attributes = dict(item.split("=", 1) for item in more)
        devices.append(Device(address, PARTS[part], attributes, above, ()))
        stack.append((indent, address))
    return tuple(
        device._replace(
            below=tuple(sorted({other.address[5:7] for other in devices if device.address in other.above}))
        )
        for device in devices
    )


def link_of(device: Device) -> Link | None:
    """The link of a device, the same for both ends."""
    most = device.attributes.get("max", device.part.link)
    if not most:
        return None
    now = device.attributes.get("link", most)
    (speed, width), (top, lanes) = (text.split("x") for text in (now, most))
    return Link(speed, int(width), top, int(lanes))


def write(tree: Tree, devices: tuple[Device, ...], spec: Mapping[str, Any], *, root: bool) -> None:
    """Write sys/bus/pci/devices, IOMMU groups and drivers. `root`: whether config space is complete."""
    tree.folder("sys/bus/pci/devices")
    tree.folder("sys/class/iommu")
    tree.folder("sys/kernel/iommu_groups")
    bases = resources(devices)
    for device in devices:
        _write(tree, device, spec, bases[device.address], root=root)
    mode = spec.get("iommu", "off")
    if mode == "off":
        return
    for name in spec.get("iommu_units", ["dmar0"]):
        tree.folder(f"sys/class/iommu/{name}")
    for number, group in enumerate(_groups(devices)):
        at = f"sys/kernel/iommu_groups/{number}"
        tree.line(f"{at}/type", mode)
        tree.line(f"{at}/reserved_regions", "0x00000000fee00000 0x00000000feefffff msi")
        for device in group:
            tree.link(f"{at}/devices/{device.address}", device.folder)
            tree.link(f"{device.folder}/iommu_group", at)


def _groups(devices: tuple[Device, ...]) -> list[list[Device]]:
    """Functions that the IOMMU cannot isolate from each other: those below a bridge without redirection."""
    groups: dict[str, list[Device]] = {}
    isolated = {
        d.address
        for d in devices
        if {"RR", "CR", "UF"} <= set(acs_of(d) or ()) or d.part.kind == "switch-up"
    }
    for device in devices:
        above = [address for address in device.above if address not in isolated]
        key = device.attributes.get("group") or (above[0] if above else device.address)
        groups.setdefault(key, []).append(device)
    return list(groups.values())


def acs_of(device: Device) -> tuple[str, ...] | None:
    """The ACS control bits that are set; None without the capability."""
    bits = device.attributes.get("acs", "" if device.part.acs else "absent")
    return None if bits == "absent" else tuple(bit for bit in bits.split(",") if bit)


def resources(devices: tuple[Device, ...]) -> dict[str, list[Bar]]:
    """Memory addresses without overlap: each BAR at a multiple of its size."""
    wide, narrow = 0x2000_0000_0000, 0x8000_0000
    placed: dict[str, list[Bar]] = {}
    for device in devices:
        bars = placed.setdefault(device.address, [])
        for index, mib, is_wide in device.part.bars:
            size = mib * MIB
            if is_wide:
                wide = -(-wide // size) * size
                bars.append(Bar(index, wide, size, True))
                wide += size
            else:
                narrow = -(-narrow // size) * size
                bars.append(Bar(index, narrow, size, False))
                narrow += size
    return placed


def _write(tree: Tree, device: Device, spec: Mapping[str, Any], bars: list[Bar], *, root: bool) -> None:
    at, part = device.folder, device.part
    vendor, identity, subvendor, subdevice = device.ids
    tree.link(f"sys/bus/pci/devices/{device.address}", at)
    tree.link(f"{at}/subsystem", "sys/bus/pci")
    tree.line(f"{at}/vendor", f"0x{vendor:04x}")
    tree.line(f"{at}/device", f"0x{identity:04x}")
    tree.line(f"{at}/class", f"0x{part.class_code:06x}")
    tree.line(f"{at}/revision", f"0x{part.revision:02x}")
    tree.line(f"{at}/subsystem_vendor", f"0x{subvendor:04x}")
    tree.line(f"{at}/subsystem_device", f"0x{subdevice:04x}")
    tree.line(f"{at}/numa_node", numa_of(device, spec))
    tree.line(f"{at}/local_cpulist", spec.get("local_cpulist", "0-15"))
    tree.line(f"{at}/enable", 1)
    base, sub, interface = part.class_code >> 16, part.class_code >> 8 & 0xFF, part.class_code & 0xFF
    alias = f"pci:v{vendor:08X}d{identity:08X}sv{subvendor:08X}sd{subdevice:08X}"
    alias += f"bc{base:02X}sc{sub:02X}i{interface:02X}"
    tree.line(f"{at}/modalias", alias)
    driver = device.attributes.get("driver", part.driver)
    known = "" if driver in ("", "none") else f"DRIVER={driver}\n"
    ids = f"PCI_CLASS={part.class_code:X}\nPCI_ID={vendor:04X}:{identity:04X}\n"
    ids += (
        f"PCI_SUBSYS_ID={subvendor:04X}:{subdevice:04X}\nPCI_SLOT_NAME={device.address}\nMODALIAS={alias}\n"
    )
    tree.file(f"{at}/uevent", known + ids)
    if known:
        tree.link(f"{at}/driver", f"sys/bus/pci/drivers/{driver}")
        tree.link(f"sys/bus/pci/drivers/{driver}/{device.address}", at)
    tree.file(f"{at}/resource", _resource(bars))
    link = link_of(device)
    answers = device.attributes.get("answers") != "no"
    if link is not None:
        tree.line(
            f"{at}/current_link_speed", f"{link.current_speed} GT/s PCIe" if answers else "Unknown"
        )  # of ones, drivers/pci/pci-sysfs.c prints this
        tree.line(f"{at}/current_link_width", link.current_width if answers else 63)
        tree.line(f"{at}/max_link_speed", f"{link.max_speed} GT/s PCIe")
        tree.line(f"{at}/max_link_width", link.max_width)
    if "power" in device.attributes:
        tree.line(f"{at}/power_state", device.attributes["power"])
    space = config_space.build(_space(device, bars, link)) if answers else b"\xff" * 4096
    if device.attributes.get("id") == "ffff":
        space = b"\xff" * 4 + space[4:]
    tree.file(
        f"{at}/config", space if root else space[:64]
    )  # pci-sysfs.c gives 64 bytes without CAP_SYS_ADMIN


def numa_of(device: Device, spec: Mapping[str, Any]) -> str:
    """The NUMA node; -1 if the firmware gives none."""
    return device.attributes.get("numa", str(spec.get("numa", -1)))


def _resource(bars: list[Bar]) -> str:
    lines = ["0x0000000000000000 0x0000000000000000 0x0000000000000000"] * 7
    for bar in bars:
        flags = 0x14220C if bar.wide else 0x40200
        lines[bar.index] = f"0x{bar.base:016x} 0x{bar.base + bar.size - 1:016x} 0x{flags:016x}"
    return "\n".join(lines) + "\n"


def _space(device: Device, bars: list[Bar], link: Link | None) -> config_space.Space:
    part = device.part
    vendor, identity, subvendor, subdevice = device.ids
    buses = [int(bus, 16) for bus in device.below]
    primary = int(device.address[5:7], 16)
    resizable = None
    if part.resizable is not None:
        index, most = part.resizable
        resizable = index, next(bar.size for bar in bars if bar.index == index), most * MIB
    ats = device.attributes.get("ats", "off")
    return config_space.Space(
        vendor=vendor,
        device=identity,
        class_code=part.class_code,
        revision=part.revision,
        subsystem_vendor=subvendor,
        subsystem_device=subdevice,
        kind=part.kind,
        link=link,
        bars=bars,
        bus_numbers=(primary, min(buses, default=0), max(buses, default=0)),
        max_read_request=int(device.attributes.get("mrrs", "512" if part.driver != "mlx5_core" else "4096")),
        acs_control=acs_of(device),
        ats=ats == "on" if part.ats and ats != "absent" else None,
        serial=zlib.crc32(device.address.encode()) << 32 | 0x48B02D if part.serial else None,
        resizable=resizable,
        slot=int(device.attributes.get("slot", "0")),
    )
