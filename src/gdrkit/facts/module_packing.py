"""Whether a compressed module can be unpacked, by modprobe or by the kernel, and what they print if not."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceMissing, MissingReason
from gdrkit.facts.kmod import kmod_version
from gdrkit.facts.module_files import content, kernel_unpacks, packing
from gdrkit.formats.compressed import CUT_OFF
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
    if damage := _damage(node, path):
        return _damaged(node, path, found.kind, cut=CUT_OFF in damage)
    if found.kind == "xz" and found.check not in _KNOWN_TO_THE_KERNEL and kernel_unpacks(node) == "xz":
        node.cite(path, "xz", f"the kernel does not know its check, {found.check}")
        return UnpackFault(status=_OPTIONS_ERROR)
    return None


def _damaged(node: Node, path: str, kind: str, *, cut: bool) -> UnpackFault:
    if kernel_unpacks(node) == kind == "xz":
        return UnpackFault(status=_OK if cut else _DATA_ERROR)
    if kernel_unpacks(node) == kind:
        return UnpackFault()
    if not _prints(node):
        return UnpackFault(ENOEXEC if cut and kind == "zstd" else EINVAL)
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
