"""Members of a tar archive, header by header. Headers are untrusted input.

This does not use tarfile, which keeps every member in memory, expands sparse ones, and takes four times as
long to build an index. Source: POSIX pax, "pax Interchange Format"; GNU tar manual, "Basic Tar Format".
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.evidence.stream import Stream
from gdrkit.formats.regex import regex

BLOCK = 512

MEMBERS_LIMIT = 250_000
"""Most members of one archive. A sosreport of a machine with 10,000 processes has about 100,000."""

HEADERS_LIMIT = 3 * MEMBERS_LIMIT
"""Most headers: a member's own header may follow one for its name and one for its link. Further blocks of
the map of a sparse file count too."""

PATH_LIMIT_BYTES = 4096
"""Linux include/uapi/linux/limits.h, PATH_MAX."""

EXTENSION_LIMIT_BYTES = 1 << 20
"""Extended headers of one member. They hold paths, security labels and access lists, at most 64 KiB each
(xattr(7))."""

EXTENSIONS_LIMIT_BYTES = 64 << 20
"""Extended headers of one archive: 256 bytes for each of the most members that are read."""

RECORDS_LIMIT = 10_000
"""Records of one extended header. Most are extended attributes, whose names have 64 KiB together: Linux
include/uapi/linux/limits.h, XATTR_LIST_MAX. The shortest, such as `user.a` and its NUL, has 7 bytes."""

ARCHIVE_RECORDS_LIMIT = 8 * MEMBERS_LIMIT
"""Records of one archive that are read. For a long name GNU tar writes up to 8: three times, name, link,
SELinux's label and two access lists. Reading this many takes about two seconds."""

REGULAR, HARD_LINK, SYMBOLIC_LINK, DIRECTORY, OTHER_TYPE = "0", "1", "2", "5", "?"


class DamagedArchive(Exception):
    """A header is not valid, so no later member can be found."""


class Member(Struct):
    """One member; its content follows in the stream."""

    name: str
    type: str
    size: int  # bytes stored in the archive
    link: str
    sparse: bool


def is_header(block: bytes) -> bool:
    """Whether a block is the header of a tar member, by its checksum."""
    return len(block) == BLOCK and _checksum_holds(block)


_EMPTY = bytes(BLOCK)
_REGULAR, _SPARSE, _GLOBAL = b"0\0007", ord("S"), ord("g")
_EXTENSIONS, _EMPTY_TYPES = b"LKx", b"123456"
_TYPES = dict.fromkeys(b"0\0007S", REGULAR) | {0x31: HARD_LINK, 0x32: SYMBOLIC_LINK, 0x35: DIRECTORY}
_KEYS = frozenset((b"path", b"linkpath", b"size"))
_SPARSE_KEY, _SPARSE_FIELD = b"GNU.sparse", "GNU.sparse"
_LENGTH = regex(rb"(\d{1,20}) ")


class _Extensions:
    """Reads extended headers, and counts what all of them take: bytes say little about the work."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._of_member = self._of_archive = self._records = 0

    def next_member(self) -> None:
        self._of_member = 0

    def read(self, kind: int, size: int) -> dict[str, str]:
        """Fields for the next member, by name: GNU's long name or long link, or POSIX records."""
        self._of_member, self._of_archive = self._of_member + size, self._of_archive + size
        if self._of_member > EXTENSION_LIMIT_BYTES:
            raise DamagedArchive
        if self._of_archive > EXTENSIONS_LIMIT_BYTES:
            raise DamagedArchive(f"more than {EXTENSIONS_LIMIT_BYTES >> 20} MiB of extended headers")
        data = bytes(self._stream.take(size + -size % BLOCK))[:size]
        if kind != ord("x"):
            return {"path" if kind == ord("L") else "linkpath": _text(data)}
        wanted = b"path=" in data or b"size=" in data or _SPARSE_KEY in data
        return self._fields(data) if wanted else {}  # most contain only a time

    def _fields(self, data: bytes) -> dict[str, str]:
        """Records of an extended header: "length key=value\\n", where the length counts the whole record."""
        fields: dict[str, str] = {}
        at = count = 0
        while True:
            found = _LENGTH.match(data, at)
            length = int(found[1]) if found else 0
            key, equals, value = data[found.end() if found else at : at + length].partition(b"=")
            if not equals:  # padding or garbage: the plain header still applies
                return fields
            count, self._records = count + 1, self._records + 1
            if count > RECORDS_LIMIT:
                raise DamagedArchive
            if self._records > ARCHIVE_RECORDS_LIMIT:
                raise DamagedArchive(f"more than {ARCHIVE_RECORDS_LIMIT:,} records in extended headers")
            if key in _KEYS:
                fields[_text(key)] = value.removesuffix(b"\n").decode("utf-8", "replace")
            elif key.startswith(_SPARSE_KEY):  # one of many, for each part of the file
                fields[_SPARSE_FIELD] = ""
            at += length


def members(stream: Stream) -> Iterator[Member]:
    """Each member in turn. Content that the caller did not read is skipped.

    Raises StreamEnded if the archive is cut off (no end mark), DamagedArchive if a header is not valid."""
    extensions = _Extensions(stream)
    extended: dict[str, str] = {}  # fields for the next member, from extended headers
    blocks = 0
    while blocks < HEADERS_LIMIT:
        blocks += 1
        header = bytes(stream.take(BLOCK))
        kind = header[156]
        if not _checksum_holds(header):
            if header == _EMPTY:
                return
            raise DamagedArchive
        size = _number(header[124:136])
        if kind in _EXTENSIONS:
            extended |= extensions.read(kind, size)
            continue
        extensions.next_member()
        name, link = _name(header), _text(header[157:257])
        sparse = kind == _SPARSE
        if extended:
            name, link = extended.get("path", name), extended.get("linkpath", link)
            sparse = sparse or _SPARSE_FIELD in extended
            if (stated := extended.get("size", "")).isdecimal():
                size = int(stated[:20])
            extended = {}
        if kind == _SPARSE and header[482]:
            blocks += _skip_sparse_map(stream, HEADERS_LIMIT - blocks)
        if kind in _EMPTY_TYPES:  # links, devices and folders have no content, whatever the header says
            size = 0
        end = stream.position + size + -size % BLOCK
        if kind != _GLOBAL:
            what = DIRECTORY if kind in _REGULAR and name.endswith("/") else _TYPES.get(kind, OTHER_TYPE)
            yield Member(name, what, size, link, sparse)
        if end != stream.position:
            stream.skip(end - stream.position)
    raise _too_many_headers()


def _skip_sparse_map(stream: Stream, most: int) -> int:
    """The number of further blocks of a sparse file's map; the last one says that none follows."""
    for count in range(1, most + 1):
        if not stream.take(BLOCK)[504]:
            return count
    raise _too_many_headers()


def _too_many_headers() -> DamagedArchive:
    return DamagedArchive(f"more than {HEADERS_LIMIT:,} headers")


def _checksum_holds(header: bytes) -> bool:
    """Whether the sum of all bytes, with blanks in the checksum field, is the one stored.

    The lower half of Adler-32 is that sum plus one, modulo 65521 (RFC 1950, 9), and fast to compute."""
    field = header[148:156]
    try:
        stored = int(field.rstrip(b" \0"), 8)
    except ValueError:
        return False
    return (stored + sum(field) - 8 * 0x20 + 1) % 65521 == zlib.adler32(header) & 0xFFFF


def _number(field: bytes) -> int:
    """A number in octal, or in base 256 if it is too large for that. Raises DamagedArchive."""
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
    if header[345] and header[257:263] == b"ustar\0":  # GNU's own format uses this field otherwise
        name = f"{_text(header[345:500])}/{name}"
    return name


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")
