"""How a bundle keeps a module file: its limits, its signature, and what it says of what it left out."""

from __future__ import annotations

import gzip
import hashlib
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.collect import elf_reduce, module_files
from gdrkit.agent.collect.module_files import MARKER, StoredModule, small, split
from tests.module_builder import append_signature, build_module

MODULE = build_module("gdr_user", imports={"one": 1}, code_bytes=3000)
SHA512 = bytes.fromhex("0609608648016503040203")


@given(st.binary(max_size=40), st.sampled_from([b"", MARKER, b"\0" * 11 + b"\5" + MARKER]))
def test_nothing_is_lost_where_a_signature_is_split_off(body, end):
    content, trailer = split(body + end)
    assert content + trailer == body + end
    assert trailer.endswith(MARKER) or not trailer


@pytest.mark.parametrize("length", [0, 1, 11])
def test_a_marker_after_less_than_a_trailer_is_appended_to_all_of_it(length):
    assert split(bytes(length) + MARKER) == (bytes(length), MARKER)


@pytest.mark.parametrize(("length", "kept"), [(0, 10), (9, 1), (10, 0), (11, 10), (0xFFFFFFFF, 10)])
def test_a_signature_may_be_as_long_as_the_file_and_not_longer(length, kept):
    content = bytes(range(10)) + bytes(8) + length.to_bytes(4, "big") + MARKER
    assert split(content) == (content[:kept], content[kept:])


def test_a_module_file_as_it_is_kept():
    signed = append_signature(MODULE, b"x" + SHA512)
    reduced = elf_reduce.reduce(MODULE, elf_reduce.KEEP_OF_MODULE)
    assert reduced is not None
    digests = {name: hashlib.new(name, MODULE).hexdigest() for name in ("sha256", "sha512")}
    linked = frozenset({b"one"})
    kept = StoredModule(reduced.data + signed[len(MODULE) :], "reduced", "", digests, len(MODULE), linked)
    assert small(signed, whole=False) == kept
    packed = gzip.compress(signed)
    assert small(packed, whole=False) == kept._replace(head=packed[:64].hex())
    assert small(packed, whole=True) == kept._replace(data=packed, status="found")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("behind", ["stream", "zeros", "words"])
def test_a_module_with_more_than_one_stream_is_kept_whole(pack, behind):
    """What the kernel makes of it differs from what modprobe does."""
    one = pack(MODULE)
    raw = one + {"stream": pack(b"more"), "zeros": bytes(8), "words": b"words"}[behind]
    assert small(one, whole=False).status == "reduced"
    found = small(raw, whole=False)
    assert (found.data, found.status) == (raw, "found")


def test_a_file_that_cannot_be_read_is_kept_as_it_is_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(module_files, "BROKEN_LIMIT_BYTES", 100)
    packed = gzip.compress(bytes(1000))[:-3]
    for more, status in ((0, "found"), (1, "truncated")):
        raw = packed + bytes(100 + more - len(packed))
        found = small(raw, whole=True)
        assert (found.data, found.status) == (raw[:100], status)
        assert found.why.startswith("not decompressed: ")
        assert found[3:] == ({}, 0, frozenset(), "")
        digests = {"sha256": hashlib.sha256(bytes(100 + more)).hexdigest()}
        broken = StoredModule(bytes(100), status, "not a valid ELF file", digests, 100 + more, frozenset())
        assert small(bytes(100 + more), whole=False) == broken


def test_of_the_modules_that_are_kept_whole_only_the_small_ones_are(monkeypatch):
    for limit, status in ((len(MODULE), "found"), (len(MODULE) - 1, "reduced")):
        monkeypatch.setattr(module_files, "BROKEN_LIMIT_BYTES", limit)
        assert small(MODULE, whole=True).status == status
