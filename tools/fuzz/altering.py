"""Alters bytes: small changes of real files, and what tends to break parsers."""

from __future__ import annotations

import random
import re

WORDS = (
    b"", b"\0", b"-1", b"0", b"zz", b"0x", b"1e999", b"nan", b"99999999999999999999", b"1" * 5000,
    b"\xff\xfe", b"\n", b" ", b"N/A", "\u0663".encode(), "\u00b2".encode(), "\u0663\u00b2".encode(),
    b"\xed\xa0\x80", b"\\ud800", "\u2028".encode(), "\u0130".encode(), b"..", b"[", b"{{", b'"', b"%s",
)  # fmt: skip
"""Among them more digits than int() accepts, digits that are not ASCII, and halves of surrogate pairs."""

DEEP = 100_000
_LETTERS = b"bcdefghi"
NESTED = (
    b"[" * DEEP, b'{"a":' * DEEP, b"<a>" * DEEP, b"{a: " * DEEP, b"- " * DEEP, b"(" * DEEP,
    b"\x30\x80" * DEEP, b"&a [*a]", b"a: &a {<<: *a}",
    b"a: &a [x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in _LETTERS),
    b'<!DOCTYPE a [<!ENTITY a "aaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (n, b"&%c;" % (n - 1) * 9) for n in _LETTERS) + b"]><a>&i;</a>",
)  # fmt: skip
"""Brackets without end, and entities and aliases that multiply."""

EDGES = (
    0, 1, 2, 3, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63,
    (1 << 64) - 1,
)  # fmt: skip
"""Integers at which headers and tables of binary files overflow."""

LARGEST = 1 << 20
"""The most bytes of an altered input."""

_PLACES = tuple(
    re.compile(pattern)
    for pattern in (rb"0x[0-9a-f]+", rb"\d+", rb"[0-9a-f]{2,}", rb"[A-Za-z_]+", rb"[:.,=/ ]")
)


def altered(content: bytes, draw: random.Random) -> bytes:
    """The content with one small change, or seldom two, or one that is large."""
    if b"\0" in content[:512] and draw.random() < 0.8:
        return _binary(content, draw)
    if draw.random() < 0.005:
        return _huge(content, draw)
    changed = _text(content, draw)
    return _text(changed, draw) if draw.random() < 0.25 else changed


def _text(content: bytes, draw: random.Random) -> bytes:
    match draw.randrange(10):
        case 0:
            return content[: draw.randrange(len(content) + 1)]
        case 1 if content:
            at = draw.randrange(len(content))
            return content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :]
        case 2:
            lines = content.splitlines(keepends=True)
            if lines:
                del lines[draw.randrange(len(lines))]
            return b"".join(lines)
        case 3:
            lines = content.splitlines(keepends=True)
            return b"".join([*lines, *draw.sample(lines, min(3, len(lines)))])
        case 4 if draw.random() < 0.2:
            return draw.choice(WORDS)
        case _:
            return _another_word(content, draw)


def _another_word(content: bytes, draw: random.Random) -> bytes:
    """The content with one number, word or separator replaced."""
    pattern = draw.choice(_PLACES)
    place = pattern.search(content, draw.randrange(len(content) + 1)) or pattern.search(content)
    if place is None:
        return draw.choice(WORDS) + content
    return content[: place.start()] + draw.choice(WORDS) + content[place.end() :]


def _huge(content: bytes, draw: random.Random) -> bytes:
    """The content with a line, or a bracket, very often; or without line ends."""
    lines = content.splitlines(keepends=True) or [b"a\n"]
    at = draw.randrange(len(lines))
    match draw.randrange(4):
        case 0:
            lines[at : at + 1] = [draw.choice(NESTED)]
        case 1:
            lines[at] *= min(20_000, LARGEST // len(lines[at]))
        case 2:
            piece = lines[at].rstrip(b"\r\n") or b" "
            lines[at] = piece * min(20_000, LARGEST // len(piece))
        case _:
            return draw.choice(NESTED)
    return b"".join(lines)[:LARGEST]


def _binary(original: bytes, draw: random.Random) -> bytes:
    """A few random changes: bits, bytes, integers at the edges, pieces moved, repeated, cut."""
    data = bytearray(original)
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        if not data:
            break
        at, kind = draw.randrange(len(data)), draw.randrange(8)
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at] = draw.randrange(256)
        elif kind in (2, 3, 4):  # headers and tables consist of aligned integers
            size = draw.choice((1, 2, 4, 8))
            at -= at % size
            value = draw.choice((*EDGES, len(data), draw.randrange(len(data)))) & (1 << 8 * size) - 1
            data[at : at + size] = value.to_bytes(size, draw.choice(("little", "little", "big")))
        elif kind == 5:
            del data[at : at + draw.choice((1, 4, 16, len(data)))]
        elif kind == 6:
            data[at:at] = data[at : at + draw.choice((1, 8, 64))]
        else:
            other, size = draw.randrange(len(data)), draw.choice((1, 8, 24, 64))
            data[at : at + size] = data[other : other + size]
    return bytes(data)
