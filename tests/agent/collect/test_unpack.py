"""Packed modules: unpacked as kmod would, or left as they are."""

import gzip
import lzma
import sys

import pytest

from gdrkit.agent.collect.module_files import small
from gdrkit.agent.collect.unpack import DecompressionFailed, DecompressorMissing, unpack

CONTENT = b"\x7fELF" + bytes(range(256)) * 40
MOST = 1 << 20


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, bytes], ids=["xz", "gzip", "plain"])
def test_what_is_packed_comes_out_as_it_went_in(pack):
    assert unpack(pack(CONTENT), MOST) == CONTENT


def test_two_streams_with_zeros_between_are_one_file():
    assert unpack(lzma.compress(b"a") + bytes(8) + lzma.compress(b"b"), MOST) == b"ab"


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_a_signature_behind_the_packed_stream_is_no_content_and_no_silence(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(CONTENT) + b"signature~Module signature appended~\n", MOST)


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_what_is_cut_off_is_left_alone(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(CONTENT)[:-20], MOST)


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress], ids=["xz", "gzip"])
def test_more_than_the_limit_is_refused(pack):
    with pytest.raises(DecompressionFailed):
        unpack(pack(bytes(100_000)), 50_000)


def test_where_nothing_unpacks_it_nobody_knows_what_a_module_links_to(monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)  # as in a Python built without it
    with pytest.raises(DecompressorMissing):
        unpack(lzma.compress(CONTENT), MOST)
    assert small(lzma.compress(CONTENT), whole=False).linked is None


def test_a_damaged_module_links_to_nothing_as_no_loader_reads_it_either():
    assert small(lzma.compress(CONTENT)[:-20], whole=False).linked == frozenset()
