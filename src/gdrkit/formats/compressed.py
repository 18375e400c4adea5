"""Decompression of xz, zstd and gzip, with limits on size and memory.

The format is recognized by a file's first bytes, never by its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from gdrkit.formats.errors import FormatError

if TYPE_CHECKING:
    from gdrkit.formats.elf import Buffer

XZ_MEMORY_BYTES = 72 << 20
"""Memory limit of decoding, its output not included. `xz -9` needs 65 MiB, the -6 of sos 9 (xz(1), table of
presets); the kernel's own modules use a window of 2 MiB (scripts/Makefile.modinst)."""
ZSTD_WINDOW_LOG = 27
"""2^27 bytes, 128 MiB: the default limit of `zstd -d` (zstd(1), --memory and --long)."""
# Files can have several streams (RFC 1952, 2.2; RFC 8878, 3; xz file format 2). Each further stream costs a
# copy of a piece, so pieces are small and streams are limited; in total at most 1 GiB is copied.
_PIECE_BYTES, _MOST_STREAMS = 1 << 16, 1 << 14
MODULE_LIMIT_BYTES = 512 << 20
"""The largest module, unpacked: far above those in use (nvidia.ko: tens of MB)."""
_GZIP = b"\x1f\x8b"
"""What follows the last member and does not begin so is ignored: zlib gzread.c, gz_look()."""
CUT_OFF = "cut off"
"""In the message of a FormatError about a file that ends too soon."""


def compression(data: Buffer) -> str:
    """The compression of a file by its first bytes: "xz", "zstd", "gzip", or "" for none."""
    head = bytes(data[:6])
    if head == b"\xfd7zXZ\0":  # xz file format 2.1.1.1
        return "xz"
    if head[:4] == b"\x28\xb5\x2f\xfd":  # RFC 8878, 3.1.1
        return "zstd"
    if head[:3] == b"\x1f\x8b\x08":  # RFC 1952, 2.3.1
        return "gzip"
    return ""


_STARTS = {"xz": b"\xfd7zXZ\0", "zstd": b"\x28\xb5\x2f\xfd", "gzip": b"\x1f\x8b\x08"}


def streams(data: Buffer) -> int:
    """The number of places in a compressed file at which a stream may begin."""
    return bytes(data).count(_STARTS[compression(data)])


class Packing(Struct, frozen=True):
    """How a file was compressed, by its header."""

    kind: str  # xz, zstd, gzip
    check: str = ""  # of xz: none, crc32, crc64, sha256
    filters: tuple[int, ...] = ()  # of xz: those of the first block, in the file's order, by their numbers
    sized: bool = True  # whether a zstd file has the size of its content


_XZ_CHECKS = {0: "none", 1: "crc32", 4: "crc64", 10: "sha256"}  # xz file format 2.1.1.2


def packing(head: Buffer) -> Packing | None:
    """How a file was compressed, by its first 64 bytes; None if it is not compressed."""
    kind, first = compression(head), bytes(head[:64])
    if kind == "xz" and len(first) > 7:
        return Packing(kind, check=_XZ_CHECKS.get(first[7] & 15, ""), filters=_filters(first[12:]))
    if (
        kind == "zstd" and len(first) > 4
    ):  # RFC 8878, 3.1.1.1.1: Frame_Content_Size_flag, Single_Segment_flag
        return Packing(kind, sized=bool(first[4] & 0xE0))
    return Packing(kind) if kind else None


def _filters(block: bytes) -> tuple[int, ...]:
    """The filters in the header of an xz block, as far as it goes: xz file format 3.1."""
    if len(block) < 2 or not block[0]:  # an index: there is no block
        return ()
    at, flags, found = 2, block[1], []
    for present in (0x40, 0x80):  # the sizes of the block
        at = _number(block, at)[1] if flags & present else at
    for _ in range((flags & 3) + 1):
        number, at = _number(block, at)
        size, at = _number(block, at)
        if at + size > len(block):
            break
        found.append(number)
        at += size
    return tuple(found)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and what follows it: xz file format 1.2. It ends with the data."""
    number = 0
    for index, octet in enumerate(data[at:]):
        number |= (octet & 0x7F) << 7 * index
        if not octet & 0x80:
            return number, at + index + 1
    return number, len(data) + 1


def decompress(data: Buffer, limit_bytes: int, *, first: bool = False) -> Buffer:
    """The content of a file, decompressed if necessary. Uncompressed data is returned without a copy.

    `first`: only the first stream; what follows it may be anything. Raises FormatError if the content is
    larger than the limit, cut off or damaged.
    """
    kind = compression(data)
    if not kind:
        if len(data) > limit_bytes:
            raise FormatError(f"larger than {limit_bytes} bytes")
        return data
    try:
        content = _streams(kind, memoryview(data), limit_bytes, first)
    except damage(kind) as error:
        memory = ", or needs too much memory" if kind == "xz" else ""
        raise FormatError(f"the {kind} file is damaged{memory}") from error
    if len(content) > limit_bytes:
        raise FormatError(f"the {kind} file decompresses to more than {limit_bytes} bytes")
    return content


class Decoder(Protocol):
    """The common interface of lzma.LZMADecompressor and ZstdDecompressor: one stream, piece by piece."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: Buffer, max_length: int) -> bytes: ...


class _Gzip:
    """zlib with the interface of the others."""

    def __init__(self) -> None:
        import zlib

        self._inner = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # a gzip header and its checksum

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: Buffer, max_length: int) -> bytes:
        left = self._inner.unconsumed_tail
        return self._inner.decompress(left + data if left else data, max_length)


def decoder(kind: str) -> Callable[[], Decoder]:
    """A factory of decoders, one for each stream, for a format that `compression` names."""
    if kind == "gzip":
        return _Gzip
    if kind == "xz":
        import lzma

        return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES)
    library = zstd()
    options = {library.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    return lambda: library.ZstdDecompressor(options=options)


def damage(kind: str) -> type[Exception]:
    """The exception that a decoder raises for damaged data, and for reaching its memory limit."""
    if kind == "gzip":
        import zlib

        return zlib.error
    if kind == "xz":
        import lzma

        return lzma.LZMAError
    raised: type[Exception] = zstd().ZstdError
    return raised


def zstd() -> Any:
    """The zstd module: the standard library's since Python 3.14, its backport before (PEP 784)."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _streams(kind: str, data: memoryview, limit_bytes: int, first: bool) -> bytes:
    """All streams of a file, concatenated, up to one byte more than the limit."""
    start = decoder(kind)
    stream = start()
    part = stream.decompress(data, limit_bytes + 1)
    if not stream.eof and len(part) <= limit_bytes:
        raise FormatError(f"the {kind} file is {CUT_OFF}")
    if first:
        return part
    parts, left = [part], limit_bytes + 1 - len(part)
    at = len(data) - len(stream.unused_data)
    count = 1
    while left > 0 and (at := _skip_padding(kind, data, at)) < len(data):
        if kind == "gzip" and bytes(data[at : at + 2]) != _GZIP:
            break
        if kind == "xz" and not data[at]:
            raise FormatError("the xz file is damaged: its padding is not a multiple of four bytes")
        count += 1
        if count > _MOST_STREAMS:
            raise FormatError(f"the {kind} file has too many parts")
        stream = start()
        while left > 0 and not stream.eof:
            if at >= len(data):
                raise FormatError(f"the {kind} file is {CUT_OFF}")
            piece = data[at : at + _PIECE_BYTES]
            part = stream.decompress(piece, left)
            parts.append(part)
            left -= len(part)
            at += len(piece) - len(stream.unused_data)
    return parts[0] if count == 1 else b"".join(parts)


def _skip_padding(kind: str, data: memoryview, at: int) -> int:
    """The offset of the next stream. Source: xz file format 2.2, Stream Padding: zeros, four at a time."""
    while kind == "xz" and (piece := bytes(data[at : at + _PIECE_BYTES])):
        zeros = len(piece) - len(piece.lstrip(b"\0"))
        at += zeros - zeros % 4
        if zeros < _PIECE_BYTES:
            break
    return at
