"""Files as streams, plain or compressed: what is taken, what is skipped, and where each limit is."""

from __future__ import annotations

import gzip
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gdrkit.evidence import stream as streams
from gdrkit.evidence.errors import TargetError
from gdrkit.evidence.stream import (
    PackedStream,
    PlainStream,
    Stream,
    StreamEnded,
    beginning,
    open_stream,
    read_all,
)

CONTENT = bytes(range(256)) * 20
PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes, "gzip": gzip.compress, "xz": lzma.compress,
    "gzip in two": lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
    "xz far apart": lambda data: lzma.compress(data[:100]) + bytes(400) + lzma.compress(data[100:]),
    "xz in two": lambda data: lzma.compress(data[:100]) + bytes(8) + lzma.compress(data[100:]),
}  # fmt: skip


def opened(folder: Path, data: bytes, name: str = "node.tar") -> Stream:
    path = folder / "file"
    path.write_bytes(data)
    return open_stream(path.open("rb"), name)


@pytest.fixture(
    params=[(pack, size) for pack in PACK for size in (1, 97)], ids=lambda row: f"{row[0]} {row[1]}"
)
def stream(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The same content, packed in each way and read a byte or some bytes at a time."""
    pack, read_bytes = request.param
    monkeypatch.setattr(streams, "READ_BYTES", read_bytes)
    monkeypatch.setattr(streams, "BLOCK_BYTES", 300)
    return opened(tmp_path, PACK[pack](CONTENT))


def test_it_is_read_in_order_whatever_is_peeked_taken_and_skipped(stream):
    assert stream.peek(10) == CONTENT[:10]
    assert (bytes(stream.take(10)), stream.position) == (CONTENT[:10], 10)
    stream.skip(5)
    assert (stream.position, stream.peek(700)) == (15, CONTENT[15:715])
    assert bytes(stream.take(700)) == CONTENT[15:715]
    stream.skip(701)
    assert (bytes(stream.take(0)), stream.position) == (b"", 1416)
    assert bytes(stream.take(1000)) == CONTENT[1416:2416]
    rest = len(CONTENT) - 2416
    assert stream.peek(rest + 1) == CONTENT[2416:]
    assert bytes(stream.take(rest)) == CONTENT[2416:]
    assert (stream.position, stream.peek(1)) == (len(CONTENT), b"")
    stream.skip(0)
    stream.finish()


def test_all_of_it_can_be_taken_at_once(stream):
    assert bytes(stream.take(len(CONTENT))) == CONTENT
    assert stream.peek(1) == b""


def test_the_end_before_what_is_wanted_is_an_error(stream):
    stream.skip(len(CONTENT) - 1)
    with pytest.raises(StreamEnded):
        stream.take(2)


def test_skipping_beyond_the_end_is_an_error(stream):
    stream.take(10)
    with pytest.raises(StreamEnded):
        stream.skip(len(CONTENT) - 9)


@pytest.mark.parametrize(
    ("limit", "whole"), [(1, False), (5101, False), (5119, False), (5120, True), (5121, True), (0, False)]
)
def test_all_of_it_is_read_up_to_a_limit(stream, limit, whole):
    assert len(CONTENT) == 5120
    assert read_all(stream, limit) == (CONTENT[:limit], whole)


@pytest.mark.parametrize("pack", PACK)
def test_the_beginning_of_a_file_is_unpacked(tmp_path, pack):
    path = tmp_path / "file"
    for content, size in ((CONTENT, 100), (CONTENT, 1 << 20), (b"", 5)):
        path.write_bytes(PACK[pack](content))
        first = content[:100] if pack.endswith(("in two", "far apart")) else content
        with path.open("rb") as file:
            assert beginning(file, size) == first[:size]


def test_what_has_no_beginning_is_empty_and_costs_one_read(tmp_path, monkeypatch):
    """A header of gzip may hold a name without end, and a file many streams of nothing: RFC 1952, 2.3."""
    path = tmp_path / "file"
    endless = b"\x1f\x8b\x08\x08" + bytes(6) + b"x" * (4 * streams.READ_BYTES)
    for data in (b"\x1f\x8b\x08\xff damaged" * 9, endless, PACK["gzip"](b"") * 100_000 + PACK["gzip"](b"x")):
        path.write_bytes(data)
        with path.open("rb", buffering=0) as file:
            assert beginning(file, 10) == b""
            assert file.tell() <= streams.READ_BYTES


def test_a_limit_below_a_block_is_a_limit(tmp_path):
    found = opened(tmp_path, bytes(range(100)))
    assert read_all(found, 10) == (bytes(range(10)), False)
    assert found.take(1) == b"\n"


def test_kinds_of_files(tmp_path):
    assert isinstance(opened(tmp_path, b"text"), PlainStream)
    assert opened(tmp_path, b"").peek(1) == b""
    assert isinstance(opened(tmp_path, gzip.compress(b"")), PackedStream)
    for magic in (b"BZh91AY", b"PK\3\4"):
        with pytest.raises(TargetError, match=r"^unsupported compression: node\.tar$") as caught:
            opened(tmp_path, magic + bytes(9))
        assert caught.value.hint == "unpack it and name the directory"


def test_what_follows_compressed_data_is_not_decompressed(tmp_path):
    for tail in (b"padding", bytes(100), b"\x1f", b"\x1f\x8b\x09more bytes", bytes(8) + gzip.compress(b"x")):
        found = opened(tmp_path, gzip.compress(b"content") + tail)
        assert read_all(found, 100) == (b"content", True)


def test_a_file_that_is_cut_off_ends_where_its_data_ends(tmp_path):
    noise = os.urandom(3000)
    for pack in (gzip.compress, lzma.compress):
        found = opened(tmp_path, pack(noise)[:2000])
        got, whole = read_all(found, 5000)
        assert whole and noise.startswith(got) and len(got) < 3000


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_damage_is_named_with_its_place(tmp_path, pack):
    packed = bytearray(pack(os.urandom(3000)))
    packed[-10:] = b"0123456789"
    found = opened(tmp_path, bytes(packed))
    with pytest.raises(TargetError, match=r"^node\.tar is corrupt after [\d,]+ bytes: ") as caught:
        read_all(found, 5000)
    assert caught.value.hint == "copy it again"


def test_compressed_streams_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "STREAMS_LIMIT", 3)
    piece = gzip.compress(b"x")
    assert read_all(opened(tmp_path, piece * 3), 100) == (b"xxx", True)
    with pytest.raises(TargetError, match=r"^refusing node\.tar: more than 3 compressed streams$") as caught:
        read_all(opened(tmp_path, piece * 4), 100)
    assert caught.value.hint == "unpack it yourself, check it, and name the directory"


def test_the_ratio_is_limited_beyond_what_is_free(tmp_path, monkeypatch):
    packed = gzip.compress(bytes(100_000))
    size = len(packed)
    monkeypatch.setattr(streams, "RATIO_FREE_BYTES", 100_000)
    assert read_all(opened(tmp_path, packed), 200_000)[1]
    monkeypatch.setattr(streams, "RATIO_FREE_BYTES", 99_999)
    monkeypatch.setattr(streams, "RATIO_LIMIT", -(-100_000 // size))
    assert read_all(opened(tmp_path, packed), 200_000)[1]
    monkeypatch.setattr(streams, "RATIO_LIMIT", 100_000 // size)
    why = rf"^refusing node\.tar: it unpacks to more than {100_000 // size} times its size$"
    with pytest.raises(TargetError, match=why) as caught:
        read_all(opened(tmp_path, packed), 200_000)
    assert caught.value.hint == "unpack it yourself, check it, and name the directory"


def test_the_size_is_limited_in_all(tmp_path, monkeypatch):
    packed = gzip.compress(os.urandom(2000))
    monkeypatch.setattr(streams, "TOTAL_LIMIT_BYTES", 2000)
    assert read_all(opened(tmp_path, packed), 5000)[1]
    monkeypatch.setattr(streams, "TOTAL_LIMIT_BYTES", 1999)
    with pytest.raises(TargetError, match=r"^refusing node\.tar: it unpacks to more than 0 GiB$") as caught:
        read_all(opened(tmp_path, packed), 5000)
    assert caught.value.hint == "unpack it yourself and name the directory"


def test_the_limits():
    limits = (streams.RATIO_LIMIT, streams.RATIO_FREE_BYTES >> 20, streams.TOTAL_LIMIT_BYTES >> 30)
    assert limits == (250, 128, 16)
    assert (streams.STREAMS_LIMIT, streams.PADDING_BYTES) == (100_000, 1 << 20)
    assert (streams.READ_BYTES, streams.BLOCK_BYTES) == (1 << 18, 1 << 20)
    assert len(b"\xfd7zXZ\0") == streams._MAGIC_BYTES


def test_padding_is_checked_up_to_a_limit(tmp_path, monkeypatch):
    """So that the checksum behind it is, and an endless one is not."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 300)
    packed = bytearray(gzip.compress(bytes(3000)))
    packed[-6] ^= 1
    found = opened(tmp_path, bytes(packed))
    found.take(1000)
    with pytest.raises(TargetError, match="is corrupt"):
        found.finish()
    for limit, unpacked in ((500, 600), (599, 600), (600, 600), (601, 900)):
        monkeypatch.setattr(streams, "PADDING_BYTES", limit)
        endless = opened(tmp_path, gzip.compress(bytes(10_000)))
        endless.finish()
        assert isinstance(endless, PackedStream) and endless._output == unpacked


@pytest.mark.parametrize(("size", "unpacked"), [(0, 0), (1, 300), (300, 300), (301, 600)])
def test_no_more_is_decompressed_than_is_peeked(tmp_path, monkeypatch, size, unpacked):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 300)
    found = opened(tmp_path, gzip.compress(CONTENT))
    assert isinstance(found, PackedStream)
    assert (found.peek(size), found._output) == (CONTENT[:size], unpacked)


def test_a_plain_file_is_not_copied(tmp_path):
    found = opened(tmp_path, CONTENT)
    taken = found.take(100)
    assert isinstance(taken, memoryview) and taken == CONTENT[:100]
    found.finish()
    assert (found.position, found.peek(1)) == (len(CONTENT), b"")
