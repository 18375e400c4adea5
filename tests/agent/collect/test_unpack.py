"""Compressed modules are decompressed as kmod does, or not changed."""

import gzip
import lzma
import sys

import pytest

from gdrkit.agent.collect.module_files import small
from gdrkit.agent.collect.unpack import DecompressionFailed, DecompressorMissing, unpack

CONTENT = b"\x7fELF" + bytes(range(256)) * 40
MOST = 1 << 20


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, bytes], ids=["xz", "gzip", "plain"])
def test_compressed_content_is_restored(pack):
    assert unpack(pack(CONTENT), MOST) == CONTENT


def test_two_streams_with_zeros_between_are_one_file():
    assert unpack(lzma.compress(b"a") + bytes(8) + lzma.compress(b"b"), MOST) == b"ab"


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_a_signature_after_the_compressed_stream_is_an_error(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(CONTENT) + b"signature~Module signature appended~\n", MOST)


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_content_that_is_cut_off_is_not_changed(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(CONTENT)[:-20], MOST)


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_more_than_the_limit_is_refused(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(bytes(100_000)), 50_000)


def test_without_a_decompressor_the_symbols_of_a_module_are_not_known(monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)  # as in a Python built without it
    with pytest.raises(DecompressorMissing):
        unpack(lzma.compress(CONTENT), MOST)
    assert small(lzma.compress(CONTENT), whole=False).linked is None


def test_a_damaged_module_has_no_symbols():
    assert small(lzma.compress(CONTENT)[:-20], whole=False).linked == frozenset()
