"""Compressed module files: xz, zstd, gzip, or plain. PURE.

Sniffed by their first bytes, never by a file's name, and never unpacked beyond a given size.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gdrkit.evidence import FormatError

if TYPE_CHECKING:
    from gdrkit.formats.elf import Buffer

# What decoding may take beside its output. `xz -9` needs 65 MiB (xz(1), table of presets); the kernel's own
# modules use a window of 2 MiB (scripts/Makefile.modinst).
_XZ_MEMORY_BYTES = 72 << 20
# `zstd -d` accepts windows up to 2^27 bytes unless told otherwise: zstd(1), --memory and --long.
_ZSTD_WINDOW_LOG = 27
# Files may hold several streams (RFC 1952, 2.2; RFC 8878, 3; xz file format 2). Each further one costs a
# copy of a piece, so pieces are small and streams are counted; together no more than 1 GiB is copied.
_PIECE_BYTES, _MOST_STREAMS = 1 << 16, 1 << 14


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
        raise FormatError("the xz file is damaged, or needs too much memory") from error


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


def _gzip(data: memoryview, limit_bytes: int) -> bytes:
    import zlib

    try:
        return _streams("gzip", lambda: zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), data, limit_bytes)
    except zlib.error as error:
        raise FormatError("the gzip file is damaged") from error


def _streams(kind: str, decoder: Callable[[], Any], data: memoryview, limit_bytes: int) -> bytes:
    """All streams of a file, one after the other, up to one byte beyond the limit."""
    stream = decoder()
    part: bytes = stream.decompress(data, max_length=limit_bytes + 1)
    if not stream.eof and len(part) <= limit_bytes:
        raise FormatError(f"the {kind} file is cut off")
    parts, left = [part], limit_bytes + 1 - len(part)
    at = len(data) - len(stream.unused_data)
    count = 1
    while left > 0 and (at := _skip_padding(kind, data, at)) < len(data):
        count += 1
        if count > _MOST_STREAMS:
            raise FormatError(f"the {kind} file has too many parts")
        stream = decoder()
        while left > 0 and not stream.eof:
            if at >= len(data):
                raise FormatError(f"the {kind} file is cut off")
            piece = data[at : at + _PIECE_BYTES]
            part = stream.decompress(piece, max_length=left)
            parts.append(part)
            left -= len(part)
            at += len(piece) - len(stream.unused_data)
    return parts[0] if count == 1 else b"".join(parts)


def _skip_padding(kind: str, data: memoryview, at: int) -> int:
    """Where the next stream begins. Source: xz file format 2.2, Stream Padding."""
    while kind == "xz" and at + 4 <= len(data) and not any(data[at : at + 4]):
        at += 4
    return at
