"""Members of a tar archive, one header after the other. Nothing here trusts a header.

Own code instead of tarfile: that one keeps every member of a million, expands sparse ones, and takes four
times as long for an index. Source: POSIX pax, "pax Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence.stream import Stream

BLOCK = 512

MEMBERS_LIMIT = 250_000
"""Members of one archive. A sosreport of a machine with 10,000 processes has about 100,000."""

HEADERS_LIMIT = 3 * MEMBERS_LIMIT
"""A member may have two headers about its name and its link before its own."""

PATH_LIMIT_BYTES = 4096
"""Linux include/uapi/linux/limits.h, PATH_MAX."""

EXTENSION_LIMIT_BYTES = 1 << 20
"""An extended header: paths, and security labels and access lists of at most 64 KiB each (xattr(7))."""

REGULAR, HARD_LINK, SYMBOLIC_LINK, DIRECTORY, OTHER_TYPE = "0", "1", "2", "5", "?"


class DamagedArchive(Exception):
    """What stands where a header should be is none; nothing behind it can be found."""


class Member(Struct):
    """One member; its content is next in the stream."""

    name: str
    type: str
    size: int  # bytes that are stored, for every type
    link: str
    sparse: bool


def is_header(block: bytes) -> bool:
    """Whether a block is the header of a tar member: its checksum says so."""
    return len(block) == BLOCK and block != bytes(BLOCK) and _checksum_holds(block)


def members(stream: Stream) -> Iterator[Member]:
    """Each member in turn, passing over whatever of its content the caller left.

    Raises Ended if the archive is cut off (no end mark), Damaged if a header is none."""
    extended: dict[str, str] = {}  # what headers of their own say of the next member
    for _ in range(HEADERS_LIMIT):
        header = bytes(stream.take(BLOCK))
        kind = header[156]
        # Content has no checksum at all in a tar archive; so the magic word will do, where there is one.
        if header[257:262] != b"ustar" and not _checksum_holds(header):
            if header == _EMPTY:
                return
            raise DamagedArchive
        size = _number(header[124:136])
        if kind in _EXTENSIONS:
            extended |= _extension(kind, stream, size)
            continue
        name, link = _name(header), _text(header[157:257]) if header[157] else ""
        sparse = kind == _SPARSE
        if extended:
            name, link = extended.get("path", name), extended.get("linkpath", link)
            sparse = sparse or any(key.startswith("GNU.sparse") for key in extended)
            if (said := extended.get("size", "")).isdecimal():
                size = int(said[:20])
            extended = {}
        if kind == _SPARSE and header[482]:
            while stream.take(BLOCK)[504]:  # more blocks of the map of holes
                pass
        if kind in _EMPTY_TYPES:  # links, devices and folders have no content, whatever they claim
            size = 0
        end = stream.position + size + -size % BLOCK
        if kind != _GLOBAL:
            what = DIRECTORY if kind in _REGULAR and name.endswith("/") else _TYPES.get(kind, OTHER_TYPE)
            yield Member(name, what, size, link, sparse)
        if end != stream.position:
            stream.skip(end - stream.position)
    raise DamagedArchive(f"more than {HEADERS_LIMIT:,} headers")


_EMPTY = bytes(BLOCK)
_REGULAR, _SPARSE, _GLOBAL = b"0\0007", ord("S"), ord("g")
_EXTENSIONS, _EMPTY_TYPES = b"LKx", b"123456"
_TYPES = dict.fromkeys(b"0\0007S", REGULAR) | {0x31: HARD_LINK, 0x32: SYMBOLIC_LINK, 0x35: DIRECTORY}


def _checksum_holds(header: bytes) -> bool:
    """The sum of all bytes, those of the sum itself taken for blanks.

    The lower half of Adler-32 is such a sum, plus one, modulo 65521 (RFC 1950, 9), and quick."""
    field = header[148:156]
    try:
        stored = int(field.rstrip(b" \0"), 8)
    except ValueError:
        return False
    return (stored + sum(field) - 8 * 0x20 + 1) % 65521 == zlib.adler32(header) & 0xFFFF


def _number(field: bytes) -> int:
    """A number in octal, or in base 256 where it is too large for that. Raises Damaged."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    try:
        number = int(field.rstrip(b" \0") or b"0", 8)
    except ValueError:
        raise DamagedArchive from None
    if number < 0:
        raise DamagedArchive
    return number


def _name(header: bytes) -> str:
    name = _text(header[:100])
    if header[345] and header[257:263] == b"ustar\0":  # GNU's own format keeps other things there
        name = f"{_text(header[345:500])}/{name}"
    return name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _extension(kind: int, stream: Stream, size: int) -> dict[str, str]:
    """What a header about the next member says: GNU's long name or long link, or POSIX records."""
    if size > EXTENSION_LIMIT_BYTES:
        raise DamagedArchive
    data = bytes(stream.take(size + -size % BLOCK))[:size]
    if kind != ord("x"):
        return {"path" if kind == ord("L") else "linkpath": _text(data)}
    wanted = b"path=" in data or b"size=" in data or b"GNU.sparse" in data
    return _records(data) if wanted else {}  # most say nothing but a time


def _records(data: bytes) -> dict[str, str]:
    """Records of an extended header: "length key=value\\n", the length being that of all of it."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data):
        length, space, _ = data[at : at + 21].partition(b" ")
        if not space or not length.isdigit() or not int(length):
            break  # padding, or nonsense: the plain header still holds
        record = data[at + len(length) + 1 : at + int(length)]
        key, _, value = record.removesuffix(b"\n").partition(b"=")
        records[_text(key)] = value.decode("utf-8", "replace")
        at += int(length)
    return records
