"""DER, the encoding of certificates and PKCS#7: a minimal reader that checks every length.

Source: ITU-T X.690, section 8.1 (identifier, length) and 10.1 (definite lengths only).
Why not a library: `cryptography` takes 53 ms to import, and its PKCS#7 reader refuses every kernel module,
since they are signed without certificates; asn1crypto takes 32 ms and has had no release since 2022.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.errors import FormatError

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OBJECT = 0x01, 0x02, 0x03, 0x04, 0x06
SEQUENCE, SET = 0x30, 0x31


class DerValue(Struct, frozen=True, gc=False):
    """One value: its tag and its position."""

    data: bytes  # the whole input
    tag: int  # first octet: class, constructed, number
    start: int
    content_start: int
    end: int

    @property
    def content(self) -> bytes:
        return self.data[self.content_start : self.end]

    @property
    def encoded(self) -> bytes:
        """Tag, length and content, as in the file."""
        return self.data[self.start : self.end]

    def __iter__(self) -> Iterator[DerValue]:
        """The values inside a constructed one."""
        at = self.content_start
        while at < self.end:
            value = _value(self.data, at, self.end)
            yield value
            at = value.end

    def expect(self, tag: int, called: str) -> DerValue:
        """This value if it has the tag. Raises FormatError naming what was expected."""
        if self.tag != tag:
            raise FormatError(f"missing or of the wrong type: {called}")
        return self


class DerReader:
    """Reads the values inside a constructed one, one by one."""

    __slots__ = ("_next", "_values")

    def __init__(self, value: DerValue) -> None:
        self._values = iter(value)
        self._next = next(self._values, None)

    def take(self, tag: int, called: str) -> DerValue:
        """The next value, which must have the tag. Raises FormatError naming what was expected."""
        if self._next is None:
            raise FormatError(f"missing: {called}")
        value = self._next.expect(tag, called)
        self._next = next(self._values, None)
        return value

    def optional(self, tag: int) -> DerValue | None:
        """The next value if it has the tag, else None."""
        if self._next is None or self._next.tag != tag:
            return None
        return self.take(tag, "")


def parse(data: bytes) -> DerValue:
    """The single value in `data`. Raises FormatError."""
    value = _value(data, 0, len(data))
    if value.end != len(data):
        raise FormatError("bytes follow the end of the DER value")
    return value


def _value(data: bytes, at: int, end: int) -> DerValue:
    if end - at < 2:
        raise FormatError("the DER value is cut off")
    tag, length, content = data[at], data[at + 1], at + 2
    if tag & 0x1F == 0x1F:
        raise FormatError("the DER value has a tag of several bytes")
    if length & 0x80:
        octets = length & 0x7F
        if not 1 <= octets <= 4 or octets > end - content:  # 4 GiB is more than any file here
            raise FormatError("the DER value has a bad length")
        length = int.from_bytes(data[content : content + octets], "big")
        content += octets
    if length > end - content:
        raise FormatError("the DER value is cut off")
    return DerValue(data, tag, at, content, content + length)


def integer_hex(value: DerValue) -> str:
    """A non-negative INTEGER as lower-case hex, in whole octets, without the sign octet."""
    content = value.content
    if not content:
        raise FormatError("an integer has no content")
    if len(content) > 1 and not content[0]:
        content = content[1:]
    return content.hex()


def object_id(value: DerValue) -> str:
    """An OBJECT IDENTIFIER in dotted form. Source: X.690, section 8.19."""
    content = value.content
    if not content or content[-1] & 0x80 or len(content) > 64:
        raise FormatError("an object identifier is damaged")
    arcs: list[int] = []
    arc = 0
    for octet in content:
        arc = arc << 7 | octet & 0x7F
        if not octet & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))
