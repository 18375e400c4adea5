"""Reduced modules give the same facts as complete ones, and broken ones are not changed."""

from __future__ import annotations

import hashlib
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gdrkit.agent.collect import elf_reduce, module_files
from gdrkit.formats import elf
from tests import debian_kernels
from tests.module_builder import Export, append_signature, build_module, make_key, sign

MODULE = build_module(
    "gdr_user",
    imports={"one": 1, "two": 2},
    weak_imports={"maybe": None},
    exports={"ours": Export(0x77, gpl_only=True, namespace="GDR"), "plain": 0x88},
    depends=["ib_core"],
    parameters={"level": "int"},
    code_bytes=5000,
    static_symbols=[f"helper_{n}" for n in range(200)],
)
KEY = make_key("Example")


def reduced(module: bytes) -> bytes:
    found = elf_reduce.reduce(module, elf_reduce.KEEP_OF_MODULE)
    assert found is not None
    return found.data


def answers(module: bytes) -> tuple[object, ...]:
    """Everything that facts read from a module."""
    image = elf.parse(module)
    sizes = [(section.name, section.size) for section in image.sections if "tab" not in section.name]
    return (
        image.machine, image.type, sizes, sorted(symbol.name for symbol in image.undefined()),
        image.exports(), image.versions(), image.modinfo(), image.this_module_name(),
    )  # fmt: skip


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("extended", [False, True])
def test_a_reduced_module_gives_the_same_facts(machine, extended):
    module = build_module(
        "m", imports={"a": 1}, exports={"b": 2}, machine=machine, extended_versions=extended, code_bytes=900
    )

    assert answers(reduced(module)) == answers(module)


def test_the_flags_of_exports_that_linux_7_has_instead_of_a_second_table_are_kept():
    module = build_module("m", exports={"ours": 1}, static_symbols=["__flags_ours", "helper"])
    assert b"__flags_ours" in reduced(module) and b"helper" not in reduced(module)


def test_code_and_local_symbols_are_removed():
    small = reduced(MODULE)

    assert b"helper_" not in small
    assert b"\xc3" * 100 not in small
    assert len(small) < len(MODULE) / 2
    assert answers(small) == answers(MODULE)


def test_reducing_twice_changes_nothing():
    assert reduced(reduced(MODULE)) == reduced(MODULE)


def test_imported_and_exported_symbols_are_returned():
    found = elf_reduce.reduce(MODULE, elf_reduce.KEEP_OF_MODULE)

    assert found is not None
    assert found.linked == {b"one", b"two", b"maybe", b"ours", b"plain"}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x7fELF",
        MODULE[:-1],
        MODULE[: len(MODULE) // 2],
        b"\x7fELF\x01" + MODULE[5:],
        b"MZ" + MODULE[2:],
        MODULE[:58] + struct.pack("<H", 63) + MODULE[60:],
        MODULE[:62] + struct.pack("<H", 999) + MODULE[64:],
    ],
    ids=["empty", "magic", "cut", "half", "32-bit", "not-elf", "section-size", "names-index"],
)
def test_a_module_that_the_kernel_would_refuse_is_not_changed(broken):
    assert elf_reduce.reduce(broken, elf_reduce.KEEP_OF_MODULE) is None
    assert module_files.small(broken, whole=False).data == broken


@pytest.mark.parametrize(
    ("symbols", "strings", "whole"),
    [
        (bytes(24), b"\0", True),
        (bytes(24), b"\0a\0", True),
        (bytes(25), b"\0", False),
        (bytes(24), b"", False),
        (bytes(24), b"\0a", False),
    ],
)
def test_symbols_are_whole_and_their_names_end(symbols, strings, whole):
    assert (elf_reduce._symbols(symbols, strings) is not None) is whole


def test_a_reduced_module_keeps_its_architecture():
    module = build_module("m", machine="aarch64")

    assert elf.parse(reduced(module)).machine == elf.EM_AARCH64


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_random_damage_does_not_crash_it(data):
    broken = bytearray(MODULE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(broken)))

    for module in (bytes(broken), bytes(broken[:cut])):
        elf_reduce.reduce(module, elf_reduce.KEEP_OF_MODULE)


@settings(deadline=None)
@given(st.binary(max_size=300))
@example(b"\x7fELF\x02\x01" + bytes(58))
def test_any_bytes_are_kept_as_a_module_file(raw):
    assert module_files.small(raw, whole=False).status in ("found", "reduced", "truncated")


# -- signatures ------------------------------------------------------------------------------------


def test_the_signature_follows_the_reduced_module():
    signed = sign(MODULE, KEY)
    small = module_files.small(signed, whole=False)
    body, trailer = module_files.split(signed)

    assert body == MODULE
    assert small.data.endswith(trailer)
    assert small.content_size == len(MODULE)


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, len(MODULE) * 3])
def test_an_invalid_signature_length_is_kept(length):
    signed = append_signature(MODULE, b"", length=length)
    small = module_files.small(signed, whole=False)

    assert small.data.endswith(signed[-40:])
    assert small.status in ("reduced", "found")


def test_all_digests_are_kept_if_the_signature_names_no_known_one():
    small = module_files.small(append_signature(MODULE, b"nonsense"), whole=False)

    assert {"sha1", "sha256", "sha384", "sha512"} <= set(small.digests)


def test_a_marker_alone_is_not_a_signature():
    body, trailer = module_files.split(module_files.MARKER)

    assert (body, trailer) == (b"", module_files.MARKER)


# -- real modules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "machine"), debian_kernels.KERNELS)
@pytest.mark.parametrize("name", ["ib_core", "mlx5_ib"])
def test_real_modules_give_the_same_facts_when_reduced(version, machine, name):
    raw = debian_kernels.module(version, machine, name).read_bytes()
    small = module_files.small(raw, whole=False)
    body, _ = module_files.split(module_files.unpack(raw, 1 << 28))

    assert small.status == "reduced"
    assert len(small.data) * 4 < len(body)
    assert answers(module_files.split(small.data)[0]) == answers(body)


def test_digests_are_those_that_the_signature_names():
    sha512 = bytes.fromhex("0609608648016503040203")

    def names(trailer: bytes) -> list[str]:
        return list(module_files.digests_of(b"body", trailer))

    assert names(b"") == ["sha256"]
    assert names(b"x" + sha512 + b"y") == ["sha256", "sha512"]
    assert len(names(b"none of them")) > 3
    assert module_files.digests_of(b"body", b"")["sha256"] == hashlib.sha256(b"body").hexdigest()


def test_a_digest_that_this_openssl_lacks_is_left_out(monkeypatch):
    new = hashlib.new

    def without_sha1(name: str, data: bytes = b"") -> object:
        if name == "sha1":
            raise ValueError("disabled for FIPS")
        return new(name, data)

    everything = list(module_files.digests_of(b"body", b"none of them"))
    assert "sha1" in everything
    monkeypatch.setattr(hashlib, "new", without_sha1)
    assert list(module_files.digests_of(b"body", b"none of them")) == [n for n in everything if n != "sha1"]


def test_one_section_without_a_name_makes_the_file_invalid():
    """Not only if all have none."""
    changed = bytearray(MODULE)
    start = struct.unpack_from("<Q", MODULE, 0x28)[0]
    struct.pack_into("<I", changed, start + 3 * 64, 0xFFFFFF)
    assert elf_reduce.reduce(bytes(changed), elf_reduce.KEEP_OF_MODULE) is None
    assert elf_reduce.linked(bytes(changed)) == frozenset()
    assert elf_reduce.linked(MODULE) == {b"one", b"two", b"maybe", b"ours", b"plain"}


def test_more_symbols_than_a_section_index_can_name_are_not_reduced():
    """Their table would lose its second half (gABI, SHT_SYMTAB_SHNDX)."""
    start = struct.unpack_from("<Q", MODULE, 0x28)[0]
    changed = bytearray(MODULE)
    struct.pack_into("<I", changed, start + 3 * 64 + 4, 18)
    assert elf_reduce.reduce(bytes(changed), elf_reduce.KEEP_OF_MODULE) is None


@pytest.mark.parametrize(("more", "moved"), [(0, True), (1, False)])
def test_program_headers_that_end_with_the_file_are_kept_and_others_are_not(more, moved):
    changed = bytearray(MODULE)
    struct.pack_into("<Q", changed, 0x20, len(MODULE) - 56 + more)
    struct.pack_into("<HH", changed, 0x36, 56, 1)
    small = reduced(bytes(changed))
    start = struct.unpack_from("<Q", small, 0x20)[0]
    assert start == (64 if moved else len(MODULE) - 56 + more)
    assert (small[64 : 64 + 56] == MODULE[-56:]) is moved


def test_what_follows_the_section_table_counts_for_nothing():
    assert reduced(MODULE + bytes(64)) == reduced(MODULE + b"x" * 7) == reduced(MODULE)


def test_of_the_program_headers_no_more_than_they_are_is_kept():
    changed = bytearray(MODULE)
    struct.pack_into("<Q", changed, 0x20, 64)
    struct.pack_into("<HH", changed, 0x36, 56, 2)
    assert reduced(bytes(changed))[64:][: 2 * 56] == MODULE[64:][: 2 * 56]
    assert len(reduced(bytes(changed))) <= len(reduced(MODULE)) + 2 * 64  # what follows is aligned


@pytest.mark.parametrize("link", [0, -1, 999, 1 << 31])
def test_symbols_without_a_table_of_their_names_are_not_reduced(link):
    """-1: the names of the sections."""
    start, names = struct.unpack_from("<Q", MODULE, 0x28)[0], struct.unpack_from("<H", MODULE, 0x3E)[0]
    count = struct.unpack_from("<H", MODULE, 0x3C)[0]
    kinds = [struct.unpack_from("<I", MODULE, start + index * 64 + 4)[0] for index in range(count)]
    changed = bytearray(MODULE)
    struct.pack_into("<I", changed, start + kinds.index(2) * 64 + 0x28, names if link < 0 else link)
    assert elf_reduce.reduce(bytes(changed), elf_reduce.KEEP_OF_MODULE) is None


def test_a_section_may_end_with_the_file_and_not_beyond():
    """The kernel's own bound: kernel/module/main.c, validate_section_offset()."""
    start = struct.unpack_from("<Q", MODULE, 0x28)[0]
    for more, valid in ((0, True), (1, False)):
        changed = bytearray(MODULE)
        entry = start + 3 * 64
        offset = struct.unpack_from("<Q", changed, entry + 0x18)[0]
        struct.pack_into("<Q", changed, entry + 0x20, len(MODULE) - offset + more)
        assert (elf_reduce.reduce(bytes(changed), elf_reduce.KEEP_OF_MODULE) is not None) is valid
