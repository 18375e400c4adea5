"""Compressed module files: recognized by content, never by name, and decompressed up to a limit."""

from __future__ import annotations

import gzip
import lzma
import random
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.compressed import compression, decompress
from gdrkit.formats.errors import FormatError
from tests.system_programs import program
from tests.work import steps

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def zstd_compress(content):
    """Like zstd(1), with a checksum."""
    return zstd.compress(content, options={zstd.CompressionParameter.checksum_flag: 1})


DECODER = {
    "xz": (lzma, "LZMADecompressor"),
    "zstd": (zstd, "ZstdDecompressor"),
    "gzip": (zlib, "decompressobj"),
}
PACK = {"xz": lzma.compress, "zstd": zstd_compress, "gzip": gzip.compress}
LIMIT = 1 << 20
CONTENT = b"\x7fELF" + random.Random(1).randbytes(5000) + bytes(20_000)

every_kind = pytest.mark.parametrize("kind", PACK)


@every_kind
def test_compressed_content_is_restored(kind):
    packed = PACK[kind](CONTENT)

    assert compression(packed) == kind
    assert decompress(packed, LIMIT) == CONTENT
    assert decompress(memoryview(packed), LIMIT) == CONTENT


def test_plain_content_is_returned_unchanged():
    plain = memoryview(CONTENT)

    assert compression(plain) == ""
    assert decompress(plain, LIMIT) is plain


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("xz", ["xz", "--check=crc32", "--lzma2=dict=1MiB"]),  # as scripts/Makefile.modinst does
        ("zstd", ["zstd", "-q", "-T0", "--ultra", "-22"]),
        ("gzip", ["gzip", "-n"]),
    ],
)
def test_files_compressed_by_the_usual_tools_are_decompressed(kind, command):
    name, *options = command
    packed = subprocess.run(
        [program(name), *options, "-c"], input=CONTENT, capture_output=True, check=True
    ).stdout

    assert compression(packed) == kind
    assert decompress(packed, LIMIT) == CONTENT


@every_kind
def test_the_limit_is_the_largest_content_that_passes(kind):
    packed = PACK[kind](CONTENT)

    assert decompress(packed, len(CONTENT)) == CONTENT
    with pytest.raises(FormatError, match="more than"):
        decompress(packed, len(CONTENT) - 1)


def test_the_limit_holds_for_plain_files_too():
    with pytest.raises(FormatError, match="larger than"):
        decompress(CONTENT, len(CONTENT) - 1)


@every_kind
def test_a_decompression_bomb_costs_no_more_than_the_limit(kind):
    packed = PACK[kind](bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(FormatError, match="decompresses to more than"):
        decompress(packed, LIMIT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


def test_an_xz_file_that_wants_much_memory_is_refused():
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]

    with pytest.raises(FormatError, match="needs too much memory"):
        decompress(lzma.compress(b"small", filters=filters), LIMIT)


@every_kind
def test_cut_and_damaged_files_are_refused(kind):
    packed = PACK[kind](CONTENT)
    for size in (7, 20, len(packed) // 2, len(packed) - 1):
        with pytest.raises(FormatError, match=r"cut off|damaged"):
            decompress(packed[:size], LIMIT)
    broken = bytearray(packed)
    broken[len(broken) // 2] ^= 0xFF
    with pytest.raises(FormatError, match="damaged"):
        decompress(broken, LIMIT)


@every_kind
def test_a_signature_appended_to_a_compressed_file_is_damage(kind):
    """Signing tools that append to a .ko.xz make a file that cannot be loaded. Behind a stream of gzip,
    zlib's gzread() reads on only where another one begins, and ignores the rest."""
    signed = PACK[kind](CONTENT) + b"~Module signature appended~\n"
    if kind == "gzip":
        assert decompress(signed, LIMIT) == CONTENT
        return
    with pytest.raises(FormatError, match="damaged"):
        decompress(signed, LIMIT)


@every_kind
def test_several_streams_are_concatenated(kind):
    parts = [random.Random(2).randbytes(size) for size in (10, 0, 300_000, 1)]
    packed = b"".join(PACK[kind](part) for part in parts)

    assert decompress(packed, LIMIT) == b"".join(parts)
    with pytest.raises(FormatError, match="more than"):
        decompress(packed, 300_000)


def test_xz_files_can_be_padded():
    assert decompress(lzma.compress(b"a") + bytes(8) + lzma.compress(b"b") + bytes(4), LIMIT) == b"ab"


def test_padding_is_as_long_as_it_likes_but_of_whole_groups_of_four():
    a, b = lzma.compress(b"a"), lzma.compress(b"b")
    for zeros in (1 << 16, (1 << 16) + 4, 3 << 16):
        assert decompress(a + bytes(zeros) + b + bytes(zeros), LIMIT) == b"ab"
        for end in (b, b""):
            with pytest.raises(FormatError, match=r"damaged|cut off"):
                decompress(a + bytes(zeros + 2) + end, LIMIT)


def test_much_padding_is_not_read_four_bytes_at_a_time():
    """Packed once more in a bundle, 60 MiB of it would be 60 kB that take seconds."""
    padded = lzma.compress(b"a") + bytes(8 << 20)
    assert steps(decompress, padded, LIMIT) < 2000


class Counted:
    """A decompressor that counts the bytes that all of its instances were given."""

    given = 0

    def __init__(self, decoder):
        self.decoder = decoder

    def decompress(self, data, *limits, **named):
        Counted.given += len(data)
        return self.decoder.decompress(data, *limits, **named)

    def __getattr__(self, name):
        return getattr(self.decoder, name)


@every_kind
def test_a_million_empty_streams_are_refused_before_they_are_copied_again_and_again(kind, monkeypatch):
    """Each stream returns a copy of its unused input: a million copies of the rest."""
    module, name = DECODER[kind]
    real = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **options: Counted(real(*args, **options)))
    monkeypatch.setattr(Counted, "given", 0)
    packed = PACK[kind](b"") * 1_000_000

    with pytest.raises(FormatError, match="too many parts"):
        decompress(packed, LIMIT)
    assert len(packed) < Counted.given <= len(packed) + (1 << 30)


@every_kind
@given(st.data())
def test_any_byte_changed_gives_content_or_a_format_error(kind, data):
    changed = bytearray(PACK[kind](b"some content" * 9))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        decompress(changed, LIMIT)
    except FormatError:
        return


@given(st.sampled_from([b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b""]), st.binary(max_size=100))
def test_any_bytes_give_content_or_a_format_error(magic, data):
    try:
        decompress(magic + data, 1 << 16)
    except FormatError:
        return
