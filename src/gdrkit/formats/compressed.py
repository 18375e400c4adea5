"""Compressed module files: xz, zstd, gzip, or plain. PURE.

Sniffed by their first bytes, never by a file's name, and never unpacked beyond a given size.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from gdrkit.evidence import FormatError

if TYPE_CHECKING:
    from gdrkit.formats.elf import Buffer

# What decoding may take beside its output. `xz -9` needs 65 MiB (xz(1), table of presets); the kernel's own
# modules use a window of 2 MiB (scripts/Makefile.modinst).
_XZ_MEMORY_BYTES = 72 << 20
# `zstd -d` accepts windows up to 2^27 bytes unless told otherwise: zstd(1), --memory and --long.
_ZSTD_WINDOW_LOG = 27


def compression(data: Buffer) -> str:
    """How a file is packed: "xz", "zstd", "gzip", or "" for plain. From its first bytes."""
    head = bytes(data[:6])
    if head == b"\xfd7zXZ\0":  # xz file format 2.1.1.1
        return "xz"
    if head[:4] == b"\x28\xb5\x2f\xfd":  # RFC 8878, 3.1.1
        return "zstd"
    if head[:3] == b"\x1f\x8b\x08":  # RFC 1952, 2.3.1
        return "gzip"
    return ""


def decompress(data: Buffer, limit_bytes: int) -> Buffer:
    """The content of a file, unpacked if it is packed. Plain data comes back as it is, not copied.

    Raises FormatError if the content is larger than the limit, cut off or damaged.
    """
    kind = compression(data)
    if not kind:
        if len(data) > limit_bytes:
            raise FormatError(f"larger than {limit_bytes} bytes")
        return data
    unpack = {"xz": _xz, "zstd": _zstd, "gzip": _gzip}[kind]
    content = unpack(memoryview(data), limit_bytes)
    if len(content) > limit_bytes:
        raise FormatError(f"the {kind} file unpacks to more than {limit_bytes} bytes")
    return content


def _xz(data: memoryview, limit_bytes: int) -> bytes:
    import lzma

    def decoder() -> Any:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)

    try:
        return _streams("xz", decoder, data, limit_bytes)
    except lzma.LZMAError as error:
        raise FormatError("the xz file is damaged") from error


def _zstd(data: memoryview, limit_bytes: int) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd

    def decoder() -> Any:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})

    try:
        return _streams("zstd", decoder, data, limit_bytes)
    except zstd.ZstdError as error:
        raise FormatError("the zstd file is damaged") from error


def _streams(kind: str, decoder: Any, data: memoryview, limit_bytes: int) -> bytes:
    """All streams of a file, one after the other, up to one byte beyond the limit."""
    parts: list[bytes] = []
    left = limit_bytes + 1
    rest: bytes | memoryview = data
    while rest and left > 0:
        stream = decoder()
        part = stream.decompress(rest, max_length=left)
        parts.append(part)
        left -= len(part)
        if left > 0 and not stream.eof:
            raise FormatError(f"the {kind} file is cut off")
        rest = stream.unused_data
        if kind == "xz":
            rest = bytes(rest).lstrip(b"\0")  # stream padding, xz file format 2.2
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _gzip(data: memoryview, limit_bytes: int) -> bytes:
    import zlib

    try:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = stream.decompress(data, limit_bytes + 1)
    except zlib.error as error:
        raise FormatError("the gzip file is damaged") from error
    if len(content) <= limit_bytes and not stream.eof:
        raise FormatError("the gzip file is cut off")
    return content
