"""Whether a compressed module can be unpacked, by modprobe or by the kernel, and what they print if not."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceMissing, MissingReason
from gdrkit.facts.kernel import config_option
from gdrkit.facts.kmod import kmod_version
from gdrkit.facts.module_files import content, kernel_unpacks, packing
from gdrkit.formats.compressed import CUT_OFF, MODULE_LIMIT_BYTES, Packing, decompress
from gdrkit.messages.errors import EINVAL, ENOEXEC
from gdrkit.node import Node, fact, if_missing

# kmod libkmod/libkmod-file-zstd.c, kmod_file_load_zstd(): before 34 it needed no size, and gave the kernel
# what a file that is cut off still holds. Most modules are one block, of which that is nothing (RFC 8878,
# 3.1.1.2). Until 30 its errors had no context to print with, and until 33 Debian's and Ubuntu's name a line
# of its source.
_NEEDS_SIZE = 34
# Linux include/linux/xz.h, enum xz_ret. Where a file is cut off, the decoder stops without an error.
_OK, _OPTIONS_ERROR, _DATA_ERROR = 0, 6, 7
_KNOWN_TO_THE_KERNEL = ("none", "crc32")  # lib/xz/xz_dec_stream.c, dec_stream_header()
# Linux lib/xz/xz_dec_stream.c, dec_block_header(): LZMA2, and before it at most one of the filters for
# machine code, xz_dec_bcj.c, xz_dec_bcj_reset(), that the kernel was built with.
_LZMA2 = 0x21
_BCJ = {
    4: "X86", 5: "POWERPC", 6: "IA64", 7: "ARM", 8: "ARMTHUMB", 9: "SPARC", 10: "ARM64", 11: "RISCV",
}  # fmt: skip
_TOO_LONG = "zstd: Destination buffer is too small"
_BEHIND = "zstd: Src size is incorrect"
_WORDS = {  # of liblzma's errors in kmod, and libzstd's own; observed in the lab with kmod 34
    ("xz", True): "xz: Unexpected end of input",
    ("xz", False): "xz: File is corrupt",
    ("zstd", True): "zstd: Src size is incorrect",
    ("zstd", False): "zstd: Restored data doesn't match checksum",
}


class UnpackFault(Struct, frozen=True):
    """Why a module cannot be unpacked."""

    error: int = EINVAL
    said: str = ""  # by modprobe, after its prefix; "" if it prints nothing, or it is not known what
    status: int | None = None  # in the kernel's message; None: modprobe unpacks the file


@fact
def unpack_fault(node: Node, path: str) -> UnpackFault | None:
    """Why a compressed module cannot be unpacked; None if it can, or is not compressed.

    Source: Linux kernel/module/decompress.c, module_xz_decompress(); kmod libkmod/libkmod-file*.c.
    """
    found = packing(node, path)
    if found is None:
        return None
    if found.kind == "zstd" and not found.sized and _prints(node) and kernel_unpacks(node) != "zstd":
        return UnpackFault(said="zstd: Failed to determine decompression size")
    if found.kind == "xz" and kernel_unpacks(node) == "xz" and (lacking := _unknown_part(node, found)):
        node.cite(path, "xz", f"the kernel does not know its {lacking}")
        return UnpackFault(status=_OPTIONS_ERROR)
    if damage := _damage(node, path):
        return _damaged(node, path, found.kind, cut=CUT_OFF in damage)
    if found.kind == "zstd" and _prints(node) and kernel_unpacks(node) != "zstd":
        return UnpackFault(said=_TOO_LONG) if _first_size(node, path) < len(content(node, path)) else None
    return None


def _unknown_part(node: Node, found: Packing) -> str:
    """What the kernel's decoder does not know of an xz file: its check, or one of its filters."""
    if found.check not in _KNOWN_TO_THE_KERNEL:
        return f"check, {found.check}"
    *before, last = found.filters or (_LZMA2,)
    names = [_BCJ.get(number, "") for number in before]
    for number, name in zip(before, names, strict=True):
        if not name or if_missing("y", config_option, node, f"CONFIG_XZ_DEC_{name}") != "y":
            return f"filter {number:#x}"
    return "" if last == _LZMA2 and len(before) < 2 else "filters"


@fact
def _first_size(node: Node, path: str) -> int:
    """The size of the first frame's content."""
    return len(decompress(node.map(path), MODULE_LIMIT_BYTES, first=True))


def _damaged(node: Node, path: str, kind: str, *, cut: bool) -> UnpackFault:
    if kernel_unpacks(node) == kind == "xz":
        return UnpackFault(status=_OK if cut else _DATA_ERROR)
    if kernel_unpacks(node) == kind:
        return UnpackFault()
    if not _prints(node):
        return UnpackFault(ENOEXEC if cut and kind == "zstd" else EINVAL)
    if kind == "zstd" and if_missing(0, _first_size, node, path):
        return UnpackFault(said=_BEHIND)
    node.cite(path, text="which words its damage has", confidence=Confidence.LIKELY)
    return UnpackFault(said=_WORDS.get((kind, cut), ""))


def _prints(node: Node) -> bool:
    return if_missing(0, kmod_version, node) >= _NEEDS_SIZE


def _damage(node: Node, path: str) -> str:
    """What is wrong with the compressed data; "" if nothing is."""
    try:
        content(node, path)
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.GARBLED:
            raise
        return error.missing.ask  # with the message of formats/compressed.py
    return ""
