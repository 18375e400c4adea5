"""kmod's index files, held against depmod and modprobe themselves."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats.errors import FormatError
from gdrkit.formats.kmod_index import HEADER, is_ignored, search
from tests.index_builder import index
from tests.loader.modprobe_witness import Machine
from tests.module_builder import build_module

NAMES = ("nvidia", "nvidia_peermem", "nvidia_uvm", "nv_peer_mem", "ib_core", "x")
needs_kmod = pytest.mark.skipif(shutil.which("depmod") is None, reason="apt-get install -y kmod")


@needs_kmod
def test_an_index_of_depmod_is_read_and_ours_has_its_answers(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {f"extra/{name}.ko": build_module(name) for name in NAMES})
    made = machine.file("modules.dep.bin").read_bytes()
    lines = machine.file("modules.dep").read_text().splitlines()
    ours = index({line.partition(":")[0][6:-3]: line for line in lines})
    for name in (*NAMES, "nvidi", "nvidia_", "nvidia_peermemx", "y", "", "ib"):
        expected = f"extra/{name}.ko:" if name in NAMES else None
        assert (search(made, name), search(ours, name)) == (expected, expected)


@needs_kmod
def test_modprobe_reads_the_index_of_these_tests(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {f"extra/{name}.ko": build_module(name) for name in NAMES})
    machine.file("modules.dep.bin").write_bytes(index({name: f"extra/{name}.ko:" for name in NAMES[1:]}))
    assert [machine.modprobe(name).returncode for name in NAMES] == [1, 0, 0, 0, 0, 0]


@needs_kmod
@pytest.mark.parametrize("size", [0, 6, 11, 12, 20, 60])
def test_a_cut_index_finds_what_modprobe_finds(tmp_path: Path, size: int) -> None:
    machine = Machine(tmp_path, {f"extra/{name}.ko": build_module(name) for name in NAMES})
    file = machine.file("modules.dep.bin")
    file.write_bytes(file.read_bytes()[:size])
    assert machine.modprobe("x").returncode == 1
    assert search(file.read_bytes(), "x") is None
    assert is_ignored(file.read_bytes()) is (size < HEADER.size)


@pytest.mark.parametrize("header", [(1, 0x20001, 12), (0xB007F457, 0x10001, 12), (0xB007FA57, 0x20001, 12)])
def test_another_magic_number_or_version_is_not_an_index(header: tuple[int, int, int]) -> None:
    with pytest.raises(FormatError):
        search(HEADER.pack(*header) + bytes(100), "x")


def test_an_offset_behind_the_last_page_is_an_error() -> None:
    with pytest.raises(FormatError):
        search(HEADER.pack(0xB007F457, 0x20001, 0x20002000), "x")


@given(st.binary(), st.text())
def test_any_bytes_are_an_answer_or_a_format_error(data: bytes, key: str) -> None:
    whole = index({"alpha": "a.ko:", "alphabet": "b.ko:"})
    for content in (data, whole[:12] + data, whole[: len(data)] + data):
        with contextlib.suppress(FormatError):
            search(content, key)
