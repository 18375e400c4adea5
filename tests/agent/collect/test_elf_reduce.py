"""Reduced modules answer what whole ones do, and broken ones are left alone."""

from __future__ import annotations

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
    """All that facts ask of a module."""
    image = elf.parse(module)
    sizes = [(section.name, section.size) for section in image.sections if "tab" not in section.name]
    return (
        image.machine, image.type, sizes, sorted(symbol.name for symbol in image.undefined()),
        image.exports(), image.versions(), image.modinfo(), image.this_module_name(),
    )  # fmt: skip


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("extended", [False, True])
def test_a_reduced_module_answers_as_the_whole_one(machine, extended):
    module = build_module(
        "m", imports={"a": 1}, exports={"b": 2}, machine=machine, extended_versions=extended, code_bytes=900
    )

    assert answers(reduced(module)) == answers(module)


def test_code_and_local_symbols_go():
    small = reduced(MODULE)

    assert b"helper_" not in small
    assert b"\xc3" * 100 not in small
    assert len(small) < len(MODULE) / 2
    assert answers(small) == answers(MODULE)


def test_reducing_twice_changes_nothing():
    assert reduced(reduced(MODULE)) == reduced(MODULE)


def test_symbols_that_tie_it_to_others_are_told():
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
def test_a_module_that_the_kernel_would_refuse_is_kept_as_it_is(broken):
    assert elf_reduce.reduce(broken, elf_reduce.KEEP_OF_MODULE) is None
    assert module_files.small(broken, whole=False).data == broken


def test_a_module_of_another_machine_is_reduced_and_still_of_that_machine():
    module = build_module("m", machine="aarch64")

    assert elf.parse(reduced(module)).machine == elf.EM_AARCH64


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_damage_makes_it_fail(data):
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
def test_any_bytes_are_a_module_file_of_some_kind(raw):
    assert module_files.small(raw, whole=False).status in ("found", "reduced", "truncated")


# -- signatures ------------------------------------------------------------------------------------


def test_the_signature_stays_behind_the_reduced_module():
    signed = sign(MODULE, KEY)
    small = module_files.small(signed, whole=False)
    body, trailer = module_files.split(signed)

    assert body == MODULE
    assert small.data.endswith(trailer)
    assert small.content_size == len(MODULE)


@pytest.mark.parametrize("length", [0, 0xFFFFFFFF, len(MODULE) * 3])
def test_a_length_that_cannot_be_true_is_kept_for_the_kernel_to_refuse(length):
    signed = append_signature(MODULE, b"", length=length)
    small = module_files.small(signed, whole=False)

    assert small.data.endswith(signed[-40:])
    assert small.status in ("reduced", "found")


def test_all_digests_are_kept_if_the_signature_names_none_that_is_known():
    small = module_files.small(append_signature(MODULE, b"nonsense"), whole=False)

    assert {"sha1", "sha256", "sha384", "sha512"} <= set(small.digests)


def test_a_marker_alone_is_no_signature():
    body, trailer = module_files.split(module_files.MARKER)

    assert (body, trailer) == (b"", module_files.MARKER)


# -- real modules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "machine"), debian_kernels.KERNELS)
@pytest.mark.parametrize("name", ["ib_core", "mlx5_ib"])
def test_real_modules_answer_the_same_when_reduced(version, machine, name):
    raw = debian_kernels.module(version, machine, name).read_bytes()
    small = module_files.small(raw, whole=False)
    body, _ = module_files.split(module_files.unpack(raw, 1 << 28))

    assert small.status == "reduced"
    assert len(small.data) * 4 < len(body)
    assert answers(module_files.split(small.data)[0]) == answers(body)
