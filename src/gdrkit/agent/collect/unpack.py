"""Decompress module files with Python or the zstd program, up to a size limit.

Kernels use gzip, xz or zstd: Linux kernel/module/Kconfig, MODULE_COMPRESS_*.
"""

from __future__ import annotations

import gzip
import importlib
import io
import shutil
import subprocess
import time
import zlib
from typing import Any, Optional

from ..output_file import temporary_file
from ..pipes import output_of

MAGICS = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"\x28\xb5\x2f\xfd", "zstd"))
# A module has one stream; each further one costs a copy of what is left of its piece.
PIECE_BYTES, STREAMS_LIMIT = 1 << 16, 1 << 14
ZSTD_LIMIT_S = 30.0  # nvidia.ko, 100 MB, takes half a second


class DecompressionFailed(Exception):
    """Why a file is not decompressed: no decompressor, damaged, or too large."""


class DecompressorMissing(DecompressionFailed):
    """This machine has no decompressor for the file."""


def compression(data: bytes) -> str:
    """The name of the compression; "" if there is none."""
    return next((name for magic, name in MAGICS if data.startswith(magic)), "")


def unpack(data: bytes, limit_bytes: int) -> bytes:
    """The content, decompressed if it is compressed. Raises DecompressionFailed."""
    kind = compression(data)
    if not kind:
        return data
    try:
        content = _zstd(data, limit_bytes) if kind == "zstd" else _stream(kind, data, limit_bytes)
    except ImportError:
        raise DecompressorMissing(f"{kind} is not installed") from None
    except (OSError, EOFError, ValueError) as error:
        raise DecompressionFailed(str(error) or "damaged") from None
    if len(content) > limit_bytes:
        raise _too_large(limit_bytes)
    return content


def is_one_stream(data: bytes, size: int) -> bool:
    """Whether a file is one stream with `size` bytes of content, as far as that shows without decompressing
    it again. A file that is not compressed is."""
    kind = compression(data)
    if kind == "gzip":  # RFC 1952, 2.3.1: a member ends with its size
        return data[-4:] == (size & 0xFFFFFFFF).to_bytes(4, "little")
    magic = next((magic for magic, name in MAGICS if name == kind), b"")
    if kind == "xz" and data[-2:] != b"YZ":  # xz file format 2.1.2.4
        return False
    return not magic or data.find(magic, 1) < 0


def _stream(kind: str, data: bytes, limit_bytes: int) -> bytes:
    """Decompress one or more gzip or xz streams."""
    if kind == "gzip":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                return stream.read(limit_bytes + 1)
        except zlib.error as damage:
            raise ValueError(str(damage)) from None
    lzma = importlib.import_module("lzma")  # not in every build of Python
    try:
        return _xz(lzma, data, limit_bytes + 1)
    except lzma.LZMAError as damage:
        raise ValueError(str(damage)) from None


def _xz(lzma: Any, data: bytes, most_bytes: int) -> bytes:
    """The content of the streams of an xz file. Only zeros may be between and after them.

    LZMAFile would accept anything after the last stream, which liblzma in kmod refuses: for example a
    signature appended to a compressed module.
    """
    content, left, at = [], most_bytes, 0
    for _ in range(STREAMS_LIMIT):
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        while left > 0 and not stream.eof:
            piece = data[at : at + PIECE_BYTES]
            if not piece:
                raise ValueError("cut off")
            content.append(stream.decompress(piece, left))
            left -= len(content[-1])
            at += len(piece) - len(stream.unused_data)
        at = _after_zeros(data, at)
        if left <= 0 or at >= len(data):
            return b"".join(content)
    raise ValueError("too many parts")


def _after_zeros(data: bytes, at: int) -> int:
    while data[at : at + 1] == b"\0":
        piece = data[at : at + PIECE_BYTES]
        at += len(piece) - len(piece.lstrip(b"\0"))
    return at


def _zstd(data: bytes, limit_bytes: int) -> bytes:
    library = _zstd_library()
    if library is not None:
        try:
            with library.ZstdFile(io.BytesIO(data)) as stream:
                content: bytes = stream.read(limit_bytes + 1)
                return content
        except library.ZstdError as damage:
            raise ValueError(str(damage)) from None
    program = shutil.which("zstd", path="/usr/bin:/bin:/usr/local/bin:/usr/sbin:/sbin")
    if program is None:
        raise ImportError
    return _zstd_program(program, data, limit_bytes)


def _zstd_library() -> Optional[Any]:
    """The zstd module of Python 3.14 (PEP 784); None in older versions."""
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return None


def _zstd_program(program: str, data: bytes, limit_bytes: int) -> bytes:
    with temporary_file() as source:
        source.write(data)
        source.seek(0)
        child = subprocess.Popen(
            [program, "-dcq"],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        code, content = output_of(child, limit_bytes, time.monotonic() + ZSTD_LIMIT_S)
    except OverflowError:
        raise _too_large(limit_bytes) from None
    except TimeoutError:
        raise ValueError("zstd timed out") from None
    if code:
        raise ValueError("damaged")
    return content


def _too_large(limit_bytes: int) -> DecompressionFailed:
    return DecompressionFailed(f"larger than {limit_bytes >> 20} MiB")
