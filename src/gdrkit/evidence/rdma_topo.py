"""Read the output of `rdma_topo dump`: present it as the part of sysfs that it was read from.

Source: rdma-core kernel-boot/rdma_topo, command dump: a list of PCI functions, each with its realpath,
configuration space (zlib in base64), modalias, IOMMU group, NUMA node, VPD and subsystem devices.
"""

from __future__ import annotations

import binascii
import posixpath
from collections.abc import Collection

import msgspec
from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.evidence.bundle import BundleHost
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.foreign import ForeignRecord
from gdrkit.evidence.memory_store import EmptyEntry, MemoryStore, StoredLink
from gdrkit.evidence.missing import absent
from gdrkit.evidence.stream import Stream, read_all
from gdrkit.evidence.sysfs import ADDRESS, put_device, put_iommu_group, put_number
from gdrkit.formats import json_text

DUMP_LIMIT_BYTES = 64 << 20
"""A node has a few hundred PCI functions of about 2 kB each."""

PART_LIMIT_BYTES = 1 << 16
"""Configuration space is 4 KiB (PCI Express 5.0, 7.2.2), VPD 32 KiB at most (PCI Local Bus 3.0, app. I)."""

FUNCTIONS_LIMIT = 10_000
"""A node has a few hundred PCI functions, and thousands where network cards have virtual ones for guests."""

DEVICES_LIMIT = 4 * FUNCTIONS_LIMIT
"""Most devices of all subsystems (net, infiniband, ...): a function has one or two."""


class DumpedFunction(Struct):
    """One PCI function of a dump."""

    realpath: str
    config: str
    modalias: str | None = None
    iommu_group: str | int | msgspec.UnsetType | None = msgspec.UNSET  # null: there was no link
    numa_node: int | str | None = None
    vpd: str | None = None
    subsystems: dict[str, list[str]] | None = None


def parse(data: bytes) -> list[DumpedFunction]:
    """The functions of a dump. Raises ValueError for anything else."""
    return json_text.decode(data, list[DumpedFunction])


def open_rdma_topo(stream: Stream, name: str) -> BundleHost:
    """A dump as a host. Raises TargetError."""
    data, whole = read_all(stream, DUMP_LIMIT_BYTES)
    if not whole:
        raise TargetError(f"not an rdma_topo dump: {name} is too large", "create one: rdma_topo dump")
    try:
        functions = parse(data)
        _check_counts(functions)
        store = MemoryStore()
        paths = [(_put(store, function), function.iommu_group) for function in functions]
        ungrouped = {f"{path}/iommu_group" for path, group in paths if group is None}
    except ValueError as error:
        why = str(error).partition("\n")[0][:120]
        hint = f"create a dump: rdma_topo dump; for text: gdr explain {name}"
        raise TargetError(f"not a valid rdma_topo dump: {name}: {why}", hint) from None
    if len(store.entries) == 1:
        raise TargetError(
            f"empty rdma_topo dump: {name}", "create it on a machine with PCI devices: rdma_topo dump"
        )
    return BundleHost(store, _DumpRecord(store, ungrouped), "rdma-topo")


class _DumpRecord(ForeignRecord):
    """What a dump does not have was not collected, except for the groups that it says are not there: it has
    null where the function had no link `iommu_group` (rdma_topo, class SysfsDevice)."""

    def __init__(self, store: MemoryStore, ungrouped: Collection[str]) -> None:
        super().__init__(lambda path: False, store.read)
        self._ungrouped = ungrouped

    def missing(self, path: str, real: str) -> EvidenceMissing:
        return absent(path) if real in self._ungrouped else super().missing(path, real)


def _check_counts(functions: list[DumpedFunction]) -> None:
    """Raises ValueError for more than any node has: its packed parts may be 600 times as large unpacked."""
    if len(functions) > FUNCTIONS_LIMIT:
        raise ValueError(f"more than {FUNCTIONS_LIMIT:,} PCI functions")
    devices = sum(len(names) for function in functions for names in (function.subsystems or {}).values())
    if devices > DEVICES_LIMIT:
        raise ValueError(f"more than {DEVICES_LIMIT:,} devices of PCI functions")


def _put(store: MemoryStore, function: DumpedFunction) -> str:
    """Add a function to the store; its path."""
    # with RDMA_TOPO_DEVDIR, the path of another sysfs precedes it
    below = function.realpath.rpartition("/sys/devices/")[2].lstrip("/")
    real = posixpath.normpath(f"sys/devices/{below}")
    address = posixpath.basename(real)
    if not real.startswith("sys/devices/") or not ADDRESS.fullmatch(address) or not real.isprintable():
        raise ValueError(f"not a path of a PCI function: {function.realpath[:60]!r}")
    put_device(store, real, _unpacked(function.config))
    if function.modalias:
        store.keep(f"{real}/modalias", function.modalias.encode() + b"\n")
    if function.vpd:
        store.keep(f"{real}/vpd", _unpacked(function.vpd))
    if function.numa_node is not None:
        put_number(store, real, "numa_node", int(function.numa_node))
    if function.iommu_group is not None and function.iommu_group is not msgspec.UNSET:
        put_iommu_group(store, real, str(int(posixpath.basename(str(function.iommu_group)))))
    for subsystem, names in (function.subsystems or {}).items():
        for device in names:
            if "/" in subsystem + device or ".." in (subsystem, device) or not device.isprintable():
                raise ValueError(f"not a valid device name: {device[:60]!r}")
            store.put(f"{real}/{subsystem}/{device}", EmptyEntry.FOLDER)
            store.put(f"sys/class/{subsystem}/{device}", StoredLink(f"/{real}/{subsystem}/{device}"))
            store.put(f"{real}/{subsystem}/{device}/device", StoredLink("/" + real))
    return real


def _unpacked(text: str | None) -> bytes:
    """Bytes from zlib data in base64. Raises ValueError."""
    import zlib

    if not text:
        return b""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(binascii.a2b_base64(text), PART_LIMIT_BYTES)
        if not unpacker.eof:
            raise ValueError(f"zlib data is cut off, or larger than {PART_LIMIT_BYTES} bytes")
    except (zlib.error, binascii.Error) as error:
        raise ValueError(f"damaged zlib data: {error}") from None
    return data
