"""Compressed modules are decompressed as kmod does, or not changed."""

from __future__ import annotations

import gzip
import lzma
import shutil
import sys
import time

import pytest

from gdrkit.agent.collect import unpack as unpacking
from gdrkit.agent.collect.module_files import small
from gdrkit.agent.collect.unpack import DecompressionFailed, DecompressorMissing, compression, unpack
from tests.system_programs import has_ended, program
from tests.work import within

CONTENT = b"\x7fELF" + bytes(range(256)) * 40
MIB = 1 << 20


def by_the_program(data: bytes) -> bytes:
    return zstd(data)


def zstd(data: bytes) -> bytes:
    if sys.version_info < (3, 14):
        from backports import zstd as library
    else:
        from compression import zstd as library
    packed: bytes = library.compress(data)
    return packed


PACKERS = {"gzip": gzip.compress, "xz": lzma.compress, "zstd": zstd, "zstd's program": by_the_program}


@pytest.fixture(params=PACKERS)
def pack(request, monkeypatch):
    """A compressor; of zstd, what reads it is Python's library, as since 3.14, or the program."""
    name = request.param
    if name == "zstd" and sys.version_info < (3, 14):
        from backports import zstd as library

        monkeypatch.setitem(sys.modules, "compression.zstd", library)
    if name == "zstd's program":
        program("zstd")
        monkeypatch.setitem(sys.modules, "compression.zstd", None)
    return PACKERS[name]


def refused(data: bytes, limit_bytes: int = MIB) -> str:
    with pytest.raises(DecompressionFailed) as caught:
        unpack(data, limit_bytes)
    return str(caught.value)


def test_compressed_content_is_restored(pack):
    assert unpack(pack(CONTENT), MIB) == CONTENT
    assert unpack(pack(b""), MIB) == b""
    assert compression(pack(CONTENT)) in PACKERS


def test_what_is_not_compressed_stays():
    assert unpack(CONTENT, MIB) == CONTENT
    assert (unpack(b"", MIB), compression(CONTENT), compression(b"")) == (b"", "", "")


@pytest.mark.parametrize("more", [-1, 0, 1, MIB])
def test_content_up_to_the_limit_is_restored_and_more_is_refused(pack, more):
    limit_bytes = 2 * MIB
    packed = pack(bytes(limit_bytes + more))
    if more > 0:
        assert refused(packed, limit_bytes) == "larger than 2 MiB"
    else:
        assert len(unpack(packed, limit_bytes)) == limit_bytes + more


def test_two_streams_are_one_file(pack):
    assert unpack(pack(b"a") + pack(b"b"), MIB) == b"ab"


def test_only_zeros_may_be_between_the_streams_of_xz():
    assert unpack(lzma.compress(b"a") + bytes(8) + lzma.compress(b"b") + bytes(4), MIB) == b"ab"
    assert refused(lzma.compress(b"a") + b"\1" + lzma.compress(b"b"))


def test_a_signature_after_the_compressed_stream_is_an_error(pack):
    assert refused(pack(CONTENT) + b"signature~Module signature appended~\n")


def test_content_that_is_cut_off_or_damaged_is_an_error(pack):
    packed = pack(CONTENT)
    assert refused(packed[:-20])
    assert refused(packed[:8] + b"\xff" * 20 + packed[28:])
    assert small(packed[:-20], whole=False).linked == frozenset()


def test_what_is_wrong_is_said():
    assert refused(lzma.compress(CONTENT)[:-20]) == "cut off"
    assert refused(gzip.compress(CONTENT)[:10] + b"\xff" * 20).startswith("Error -3 ")  # zlib's
    assert refused(b"\x1f\x8b") == "Compressed file ended before the end-of-stream marker was reached"


@pytest.mark.parametrize("zeros", [4, unpacking.PIECE_BYTES, 3 * unpacking.PIECE_BYTES])
def test_streams_of_xz_are_one_file_whatever_their_size(zeros):
    parts = [CONTENT, b"", CONTENT * 60, b"x"]
    packed = b"".join(lzma.compress(part) + bytes(zeros) for part in parts)
    assert unpack(packed, MIB) == b"".join(parts)


def test_a_file_of_very_many_streams_of_xz_is_refused():
    """Each would copy what follows it: four times as many, sixteen times as long."""
    packed = lzma.compress(b"")
    assert unpack(packed * unpacking.STREAMS_LIMIT, MIB) == b""
    with pytest.raises(DecompressionFailed, match="too many parts"):
        unpack(packed * (unpacking.STREAMS_LIMIT + 1), MIB)


@pytest.mark.parametrize(("name", "packed"), [("xz", lzma.compress(CONTENT)), ("zstd", zstd(CONTENT))])
def test_without_a_decompressor_the_symbols_of_a_module_are_not_known(monkeypatch, name, packed):
    for module in ("lzma", "compression.zstd"):  # as in a Python built without it
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(shutil, "which", lambda program, path: None)
    with pytest.raises(DecompressorMissing) as caught:
        unpack(packed, MIB)
    assert str(caught.value) == f"{name} is not installed"
    found = small(packed, whole=False)
    assert (found.linked, found.data) == (None, packed)
    assert found.why == f"not decompressed: {name} is not installed"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exec sleep 60 >&-", "zstd timed out"),
        ("exec sleep 60", "zstd timed out"),  # its output stays open
        ("sleep 60 & exit 0", "zstd timed out"),  # a process that it started holds its output open
        ("cat; exit 1", "damaged"),
        ("exec yes", "larger than 1 MiB"),
    ],
)
def test_a_decompressor_that_fails_or_does_not_end_is_ended(monkeypatch, tmp_path, script, reason):
    program = tmp_path / "zstd"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setattr(shutil, "which", lambda name, path: str(program))
    monkeypatch.setattr(unpacking, "ZSTD_LIMIT_S", 0.5 if "timed" in reason else 60.0)
    assert refused(zstd(CONTENT)) == reason


def test_what_a_decompressor_started_ends_with_it(monkeypatch, tmp_path):
    program = tmp_path / "zstd"
    program.write_text(f"#!/bin/sh\nsleep 60 & echo $! > {tmp_path}/started\nexec yes\n")
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setattr(shutil, "which", lambda name, path: str(program))
    assert refused(zstd(CONTENT)) == "larger than 1 MiB"
    started = int((tmp_path / "started").read_text())
    with within(10):
        while not has_ended(started):
            time.sleep(0.01)
