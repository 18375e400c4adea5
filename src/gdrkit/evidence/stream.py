"""Read a file from the beginning and decompress it, within limits that no honest archive reaches.

Each limit stops one attack: a small file that decompresses to a huge one, a dictionary that fills the
memory, a file of very many compressed streams.
"""

from __future__ import annotations

import os
from typing import IO, Protocol

from gdrkit.evidence.errors import TargetError
from gdrkit.formats.compressed import Decoder, compression, damage, decoder

RATIO_LIMIT = 250
"""The largest ratio of decompressed to compressed size. Sosreports reach 13 with xz (18 MB from 1.4 MB),
plain logs 20 to 40; a file of zeros reaches 1,000 with gzip (the format's limit) and 7,000 with xz."""

RATIO_FREE_BYTES = 128 << 20
"""The ratio is not checked below this size: decompressing it takes less than a second."""

TOTAL_LIMIT_BYTES = 16 << 30
"""The largest sosreports seen in public cases are 1 to 2 GB compressed, with about 10 GB of logs."""

STREAMS_LIMIT = 100_000
"""Most compressed streams in one file. nvidia-bug-report.sh makes one for each file it appends: hundreds."""

PADDING_BYTES = 1 << 20
"""The most padding that may follow an archive: tar fills its last record, usually of 10 KiB."""

READ_BYTES = 1 << 18
_MAGIC_BYTES = 6  # the longest magic number, that of xz
BLOCK_BYTES = 1 << 20  # decompressed per call: large enough for few calls, small enough to save memory

BZIP2, ZIP = b"BZh", b"PK\x03\x04"


class StreamEnded(Exception):
    """The file is cut off: it ends before the expected data."""


class Stream(Protocol):
    """Bytes, read from beginning to end."""

    position: int
    """How many bytes have been read or skipped."""

    def peek(self, size: int) -> bytes:
        """The next bytes, at most `size`, without advancing."""

    def take(self, size: int) -> bytes | memoryview:
        """Exactly `size` bytes. Raises StreamEnded if there are fewer."""

    def skip(self, size: int) -> None:
        """Skip `size` bytes. Raises StreamEnded if there are fewer."""

    def finish(self) -> None:
        """Read the padding after an archive, so that checksums are checked."""


class PlainStream:
    """An uncompressed file, memory-mapped: `take` does not copy."""

    def __init__(self, file: IO[bytes]) -> None:
        import mmap

        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        self._bytes = memoryview(mapped)
        self._size = size
        self.position = 0

    def peek(self, size: int) -> bytes:
        return bytes(self._bytes[self.position : self.position + size])

    def take(self, size: int) -> memoryview:
        start = self.position
        end = start + size
        if end > self._size:
            raise StreamEnded
        self.position = end
        return self._bytes[start:end]

    def skip(self, size: int) -> None:
        if self.position + size > self._size:
            raise StreamEnded
        self.position += size

    def finish(self) -> None:
        self.position = self._size


class PackedStream:
    """A compressed file, decompressed block by block. Concatenated streams count as one: gzip(1), xz(1)."""

    def __init__(self, file: IO[bytes], name: str, kind: str) -> None:
        self._file, self._name, self._kind = file, name, kind
        self._start, self._damage = decoder(kind), damage(kind)
        self._decoder: Decoder | None = self._start()
        self._streams = 1
        self._rest = b""  # compressed bytes not given to the decoder yet
        self._size, self._output = os.fstat(file.fileno()).st_size, 0
        self._block, self._at = b"", 0  # decompressed bytes, and how many of them have been read
        self.position = 0

    def peek(self, size: int) -> bytes:
        while len(self._block) - self._at < size and (block := self._next()):
            self._block, self._at = self._block[self._at :] + block, 0
        return self._block[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        start, end = self._at, self._at + size
        self.position += size
        if end <= len(self._block):
            self._at = end
            return self._block[start:end]
        pieces = [self._block[start:]]
        while end > len(self._block):
            end -= len(self._block)
            pieces.append(self._another_block()[:end])
        self._at = end
        return b"".join(pieces)

    def skip(self, size: int) -> None:
        end = self._at + size
        self.position += size
        while end > len(self._block):
            end -= len(self._block)
            self._another_block()
        self._at = end

    def _another_block(self) -> bytes:
        """The block after this one, which it replaces."""
        self._block, self._at = self._next(), 0
        if not self._block:
            raise StreamEnded
        return self._block

    def finish(self) -> None:
        left = PADDING_BYTES
        while left > 0 and (block := self._next()):
            left -= len(block)

    def _next(self) -> bytes:
        """The next block; empty at the end of the file, even if the file is cut off."""
        while self._decoder is not None:
            more = b""
            if self._decoder.needs_input:
                more = self._rest or self._file.read(READ_BYTES)
                self._rest = b""
            try:
                block = self._decoder.decompress(more, BLOCK_BYTES)
            except self._damage as error:
                raise TargetError(
                    f"{self._name} is corrupt after {self._output:,} bytes: {error}", "copy it again"
                ) from None
            self._count(len(block))
            if self._decoder.eof:
                self._decoder = self._another(self._decoder.unused_data)
            elif not more and not block and self._decoder.needs_input:
                self._decoder = None
            if block:
                return block
        return b""

    def _another(self, rest: bytes) -> Decoder | None:
        """A decoder for the next compressed stream; None if there is none."""
        padding = b"\0" if self._kind == "xz" else b""  # between streams: xz file format, 2.2
        rest = rest.lstrip(padding)
        while len(rest) < _MAGIC_BYTES and (more := self._file.read(READ_BYTES)):
            rest = (rest + more).lstrip(padding)
        if compression(rest) != self._kind:
            return None
        self._streams += 1
        if self._streams > STREAMS_LIMIT:
            raise TargetError(
                f"refusing {self._name}: more than {STREAMS_LIMIT:,} compressed streams",
                "unpack it yourself, check it, and name the directory",
            )
        self._rest = rest
        return self._start()

    def _count(self, size: int) -> None:
        self._output += size
        if self._output > RATIO_FREE_BYTES and self._output > RATIO_LIMIT * self._size:
            raise TargetError(
                f"refusing {self._name}: it unpacks to more than {RATIO_LIMIT} times its size",
                "unpack it yourself, check it, and name the directory",
            )
        if self._output > TOTAL_LIMIT_BYTES:
            raise TargetError(
                f"refusing {self._name}: it unpacks to more than {TOTAL_LIMIT_BYTES >> 30} GiB",
                "unpack it yourself and name the directory",
            )


def open_stream(file: IO[bytes], name: str) -> Stream:
    """A file as a stream, decompressed if needed. Raises TargetError for an unsupported compression."""
    head = file.read(_MAGIC_BYTES)
    file.seek(0)
    if kind := compression(head):
        return PackedStream(file, name, kind)
    if head.startswith((BZIP2, ZIP)):
        hint = "unpack it and name the directory"
        raise TargetError(f"unsupported compression: {name}", hint)
    return PlainStream(file)


def beginning(file: IO[bytes], size: int) -> bytes:
    """The first bytes of a file, or of its first compressed stream, at most `size`; empty if it is damaged.

    One call of a decoder, so that no file takes long: a stream may hold much that unpacks to nothing."""
    head = file.read(READ_BYTES)
    kind = compression(head)
    if not kind:
        return head[:size]
    try:
        return decoder(kind)().decompress(head, size)
    except damage(kind):
        return b""


def read_all(stream: Stream, limit: int) -> tuple[bytes, bool]:
    """The rest of a stream, at most `limit` bytes, and whether that is all of it."""
    blocks: list[bytes] = []
    left = limit
    while left > 0:
        block = stream.peek(min(BLOCK_BYTES, left))
        if not block:
            return b"".join(blocks), True
        stream.skip(len(block))
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks), not stream.peek(1)
