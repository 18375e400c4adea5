"""How each memory region was registered, from the kernel's own objects: no interface tells it.

ib_core's list of devices leads to their regions, a driver's region to its ib_umem, which is of a dma-buf or
of addresses of the process. Sources: Linux drivers/infiniband/core/device.c (`devices`), restrack.c;
include/rdma/ib_umem.h; include/linux/dma-buf.h. BTF tells where the fields lie. `is_peer` is a field of the
ib_core of MLNX_OFED and DOCA, and was not seen live.

Memory of a GPU that is registered by its address lies in an area that the process itself cannot access:
`---p` in maps. Only a client of peer memory, such as nvidia-peermem, can have registered it.
"""

from __future__ import annotations

import re
import struct
from typing import Any, Dict, Iterator, List, Tuple

from .btf import FORWARD, POINTER, STRUCT, Btf, Field
from .children import Emit
from .kcore import Kcore
from .system import refuse_confidential

_BTF = "/sys/kernel/btf/"
_BTF_BYTES = 64 << 20
_SYMBOLS = "/proc/kallsyms"
_SYMBOLS_BYTES = 256 << 20
_DEVICES = re.compile(rb"^([0-9a-f]{1,16}) \w devices\t\[ib_core\]$", re.MULTILINE)
_HOLDERS = ("ib_core", "ib_uverbs")
"""ib_umem is in ib_uverbs, from Linux 7.1 on in ib_core."""
_MAPS_BYTES = 1 << 24
_LEVELS = 8
"""Of an xarray: 64^8 entries."""


class Layout:
    """Where fields lie, in the kernel and in its modules."""

    def __init__(self, folder: str = _BTF) -> None:
        self._folder = folder
        self._kernel = Btf(_read(folder + "vmlinux", _BTF_BYTES))
        self._modules: Dict[str, Btf] = {}
        self._fields: Dict[Tuple[str, str], Field] = {}

    def module(self, name: str) -> Btf:
        """Raises LookupError for one without BTF, as most of MLNX_OFED."""
        if name not in self._modules:
            try:
                self._modules[name] = Btf(_read(self._folder + name, _BTF_BYTES), self._kernel)
            except OSError:
                raise LookupError("%s has no BTF" % name) from None
        return self._modules[name]

    def field(self, name: str, path: str) -> Field:
        if (name, path) not in self._fields:
            self._fields[name, path] = self._find(name, path)
        return self._fields[name, path]

    def has(self, name: str, path: str) -> bool:
        """Whether this kernel has a field: MLNX_OFED has `is_peer`, elsewhere the area of memory tells."""
        try:
            self.field(name, path)
        except LookupError:
            return False
        return True

    def _find(self, name: str, path: str) -> Field:
        for holder in _HOLDERS:
            try:
                return self.module(holder).field(name, path)
            except LookupError:
                continue
        return self._kernel.field(name, path)

    def region(self, module: str) -> Tuple[int, int]:
        """In a driver's structure of a region: where its ib_mr lies, and where its pointer to ib_umem."""
        own = self.module(module)
        for number in own.structures():
            inner = pointer = None
            for _, what, bits in own.members(number):
                kind, target = own.plain(what)
                if kind == STRUCT and own.name(target) == "ib_mr":
                    inner = bits // 8
                elif kind == POINTER and pointer is None:
                    of, pointed = own.target(target)
                    if of in (STRUCT, FORWARD) and own.name(pointed) == "ib_umem":
                        pointer = bits // 8
            if inner is not None and pointer is not None:
                return inner, pointer
        raise LookupError("%s has no structure of a region" % module)


def read(emit: Emit, proc: str = "/proc") -> None:
    """Emit a row for each memory region of a process. Raises OSError, LookupError or ValueError."""
    refuse_confidential()
    core = Kcore()
    try:
        start = _DEVICES.search(_read(_SYMBOLS, _SYMBOLS_BYTES))
        if start is None or not int(start[1], 16):
            raise LookupError("kallsyms does not show ib_core's list of devices")
        walk = Walk(core, Layout())
        for row in walk.regions(int(start[1], 16)):
            if row["kind"] == "user":
                row["area"] = area(_maps(proc, row["pid"]), row["address"])
            row.pop("address", None)
            emit(row)
    finally:
        core.close()


class Walk:
    """A walk through the regions of all devices."""

    def __init__(self, core: Kcore, layout: Layout) -> None:
        self._core, self._layout = core, layout
        self._of_driver: Dict[str, Tuple[int, int]] = {}

    def regions(self, devices: int) -> Iterator[Dict[str, Any]]:
        """A row for each region of a process. What cannot be read, as it ends meanwhile or its driver has no
        BTF, is a row without kind."""
        core, at = self._core, self._at
        ib = self._layout.module("ib_core")
        root_size = ib.size(ib.struct("rdma_restrack_root"))
        which = ib.value("rdma_restrack_type", "RDMA_RESTRACK_MR")
        for device in self.entries(devices):
            name = core.text(device + at("ib_device", "name"))
            owner = core.pointer(device + at("ib_device", "ops.owner"))
            module = core.text(owner + at("module", "name")) if owner else ""
            table = core.pointer(device + at("ib_device", "res")) + which * root_size
            for entry in self.entries(table + at("rdma_restrack_root", "xa")):
                try:
                    row = self._region(entry)
                    if row is not None:
                        yield {"device": name, **row, **self._kind(entry - at("ib_mr", "res"), module)}
                except LookupError as error:
                    yield {"device": name, "kind": "", "why": str(error)}

    def _region(self, entry: int) -> "Dict[str, Any] | None":
        """Number, length and process of a region; None for one of the kernel."""
        core, at = self._core, self._at
        if not core.bit(entry, self._layout.field("rdma_restrack_entry", "user")):
            return None
        task = core.pointer(entry + at("rdma_restrack_entry", "task"))
        return {
            "mrn": core.number(entry + at("rdma_restrack_entry", "id")),
            "bytes": core.pointer(entry - at("ib_mr", "res") + at("ib_mr", "length")),
            "pid": core.number(task + at("task_struct", "tgid")) if task else 0,
        }

    def _kind(self, region: int, module: str) -> Dict[str, Any]:
        core, at, field = self._core, self._at, self._layout.field
        if module not in self._of_driver:
            self._of_driver[module] = self._layout.region(module)
        inner, pointer = self._of_driver[module]
        umem = core.pointer(region - inner + pointer)
        if not umem:
            raise LookupError("a region without memory of its own")
        if core.bit(umem, field("ib_umem", "is_dmabuf")):
            attachment = core.pointer(umem - at("ib_umem_dmabuf", "umem") + at("ib_umem_dmabuf", "attach"))
            buffer = core.pointer(attachment + at("dma_buf_attachment", "dmabuf"))
            return {
                "kind": "dmabuf",
                "exporter": core.text(core.pointer(buffer + at("dma_buf", "exp_name"))),
                "importer": self._name(core.pointer(attachment + at("dma_buf_attachment", "dev"))),
            }
        if self._layout.has("ib_umem", "is_peer") and core.bit(umem, field("ib_umem", "is_peer")):
            return {"kind": "peermem"}
        if core.bit(umem, field("ib_umem", "is_odp")):
            return {"kind": "odp"}
        return {
            "kind": "user",
            "address": core.pointer(umem + at("ib_umem", "address")),
            "writable": core.bit(umem, field("ib_umem", "writable")),
        }

    def entries(self, xarray: int) -> List[int]:
        """The pointers in a struct xarray: Linux lib/xarray.c, include/linux/xarray.h."""
        slots = self._at("xa_node", "slots")

        def below(entry: int, level: int) -> Iterator[int]:
            if entry & 3 == 2 and entry > 4096 and level < _LEVELS:
                for slot in struct.unpack("=64Q", self._core.read(entry - 2 + slots, 512)):
                    if slot:
                        yield from below(slot, level + 1)
            elif entry and entry & 3 == 0:
                yield entry

        return list(below(self._core.pointer(xarray + self._at("xarray", "xa_head")), 0))

    def _name(self, device: int) -> str:
        """dev_name(): of a PCI device its address."""
        own = self._core.pointer(device + self._at("device", "init_name"))
        return self._core.text(own or self._core.pointer(device + self._at("device", "kobj.name")))

    def _at(self, name: str, path: str) -> int:
        return self._layout.field(name, path).offset


def area(maps: bytes, address: int) -> str:
    """The rights and the name of the area of memory at an address, such as `rw-p [heap]`; empty if there is
    none."""
    for line in maps.splitlines():
        words = line.decode("utf-8", "replace").split(None, 5)
        first, _, last = words[0].partition("-") if len(words) > 4 else ("", "", "")
        try:
            if int(first, 16) <= address < int(last, 16):
                return " ".join((words[1], *words[5:]))[:200]
        except ValueError:
            continue
    return ""


def _maps(proc: str, pid: int) -> bytes:
    try:
        return _read("%s/%d/maps" % (proc, pid), _MAPS_BYTES)
    except OSError:
        return b""


def _read(path: str, limit_bytes: int) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(limit_bytes)
