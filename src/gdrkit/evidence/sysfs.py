"""Add PCI devices from a dump to a store, at the paths of sysfs that facts read."""

from __future__ import annotations

import posixpath

from gdrkit.evidence.memory_store import EmptyEntry, MemoryStore, StoredLink
from gdrkit.formats.regex import regex

ADDRESS = regex(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
DEVICES = "sys/bus/pci/devices"


def put_device(store: MemoryStore, real: str, config: bytes) -> None:
    """Add a device with its configuration space, and the files that sysfs makes from its header.

    Source: Linux drivers/pci/pci-sysfs.c, pci_config_attr(); PCI Local Bus 3.0, 6.1 (type 0 header)."""
    link = f"{DEVICES}/{posixpath.basename(real)}"
    store.put(link, StoredLink("/" + real))
    store.keep(f"{real}/config", config)
    if len(config) < 64:
        return

    def number(at: int, size: int) -> str:
        return f"0x{int.from_bytes(config[at : at + size], 'little'):0{size * 2}x}\n"

    files = {"vendor": number(0, 2), "device": number(2, 2), "revision": number(8, 1), "class": number(9, 3)}
    if config[14] & 0x7F == 0:  # bridges use these bytes otherwise
        files |= {"subsystem_vendor": number(0x2C, 2), "subsystem_device": number(0x2E, 2)}
    for name, content in files.items():
        store.keep(f"{real}/{name}", content.encode())


def put_number(store: MemoryStore, real: str, name: str, number: int) -> None:
    """Add a file that holds one number, for example `numa_node`."""
    store.keep(f"{real}/{name}", f"{number}\n".encode())


def put_iommu_group(store: MemoryStore, real: str, group: str) -> None:
    """Add the link from a device to its IOMMU group, and the device to the group's list."""
    address = posixpath.basename(real)
    store.put(f"{real}/iommu_group", StoredLink(f"/sys/kernel/iommu_groups/{group}"))
    store.put(f"sys/kernel/iommu_groups/{group}", EmptyEntry.FOLDER)
    store.put(f"sys/kernel/iommu_groups/{group}/devices/{address}", StoredLink("/" + real))
