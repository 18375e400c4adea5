"""Shared libraries with only their dynamic symbols, which is all that facts read.

Format: System V ABI, ELF object files and dynamic linking (.dynsym, .dynstr, DT_SONAME, symbol versions
left out)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

VERBS = (
    *("ibv_get_device_list", "ibv_free_device_list", "ibv_open_device", "ibv_close_device", "ibv_alloc_pd"),
    *("ibv_dealloc_pd", "ibv_reg_mr", "ibv_dereg_mr", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp"),
    *("ibv_query_device", "ibv_query_port", "ibv_query_gid", "ibv_fork_init", "ibv_reg_mr_iova2"),
)
DMABUF = "ibv_reg_dmabuf_mr"  # since rdma-core 34
NCCL = ("ncclGetVersion", "ncclCommInitRank", "ncclAllReduce", "ncclSend", "ncclRecv", "ncclMemAlloc")
CUDA = (
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetAttribute",
    "cuMemGetHandleForAddressRange",
    "cuMemAlloc_v2",
)
_MACHINES = {"x86_64": 62, "aarch64": 183}


def shared_object(
    soname: str,
    exports: Iterable[str],
    architecture: str = "x86_64",
    data: bytes = b"",
    imports: Iterable[str] = (),
) -> bytes:
    """An ELF shared object that defines and imports these functions. `data` becomes its .rodata."""
    strings = bytearray(b"\0")

    def text(name: str) -> int:
        strings.extend(name.encode() + b"\0")
        return len(strings) - len(name) - 1

    named = text(soname)
    symbols = b"\0" * 24
    for name in exports:
        symbols += struct.pack("<IBBHQQ", text(name), 0x12, 0, 1, 0x1000, 16)
    for name in imports:
        symbols += struct.pack("<IBBHQQ", text(name), 0x12, 0, 0, 0, 0)
    dynamic = struct.pack("<qQqQ", 14, named, 0, 0)  # DT_SONAME, DT_NULL
    bodies = [  # name, type, flags, content, link, info, entry size
        (".text", 1, 6, b"\xc3" * 16, 0, 0, 0),
        (".rodata", 1, 2, data, 0, 0, 0),
        (".dynsym", 11, 2, symbols, 4, 1, 24),
        (".dynstr", 3, 2, bytes(strings), 0, 0, 0),
        (".dynamic", 6, 3, dynamic, 4, 0, 16),
    ]
    names = bytearray(b"\0")
    headers = [b"\0" * 64]
    image = bytearray(b"\0" * 64)
    for name, kind, flags, content, link, info, entry in [*bodies, (".shstrtab", 3, 0, b"", 0, 0, 0)]:
        at_name = len(names)
        names += name.encode() + b"\0"
        content = bytes(names) if name == ".shstrtab" else content
        image += b"\0" * (-len(image) % 8)
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ", at_name, kind, flags, 0, len(image), len(content), link, info, 8, entry
            )
        )
        image += content
    image += b"\0" * (-len(image) % 8)
    header = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 3, _MACHINES[architecture], 1, 0, 0,
                         len(image), 0, 64, 0, 0, 64, len(headers), len(headers) - 1)  # fmt: skip
    image[:64] = header
    return bytes(image) + b"".join(headers)
