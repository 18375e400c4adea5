"""kmod's index files, held against depmod and modprobe themselves."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.collect import index_reduce
from gdrkit.formats.errors import FormatError
from gdrkit.formats.kmod_index import HEADER, Index, NotCollected, complaint, is_ignored
from tests.index_builder import index
from tests.loader.modprobe_witness import Machine
from tests.module_builder import build_module

NAMES = ("nvidia", "nvidia_peermem", "nvidia_uvm", "nv_peer_mem", "ib_core", "x")
needs_kmod = pytest.mark.skipif(shutil.which("depmod") is None, reason="apt-get install -y kmod")


ALIASES = {
    "a": ("lab:v*d0000001[ab]?x*", "plain-one"), "b": ("lab:*", "plain_one"), "c": ("lab:v??d*", "other"),
    "d": ("lab:v[0-9]*", "lab:v*"), "e": ("*", "la"),
}  # fmt: skip
ASKED = (
    "lab:v0001d0000001a0x7", "lab:v0001d0000001c0x7", "lab:v", "lab:", "lab", "la", "plain_one", "other",
    "othe", "x", "lab:v01d", "",
)  # fmt: skip


def search(data: bytes, key: str) -> str | None:
    return None if is_ignored(data) else Index(data).search(key)


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


@pytest.fixture(scope="module")
def by_alias(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    modules = {
        f"extra/{name}.ko": build_module(name, modinfo=[("alias", text) for text in alias])
        for name, alias in ALIASES.items()
    }
    return Machine(tmp_path_factory.mktemp("aliases"), modules)


@needs_kmod
@pytest.mark.parametrize("asked", ASKED[:-1])
def test_the_modules_of_an_alias_are_those_of_modprobe_in_its_order(by_alias: Machine, asked: str) -> None:
    found = Index(by_alias.file("modules.alias.bin").read_bytes()).matches(asked)
    assert list(found) == by_alias.modprobe("--resolve-alias", asked).stdout.split()


@needs_kmod
def test_a_reduced_index_has_the_same_answers_and_says_what_it_lacks(by_alias: Machine) -> None:
    data = by_alias.file("modules.alias.bin").read_bytes()
    reduced = index_reduce.reduce(data, lambda key, values: b"other" in key)
    assert reduced is not None and len(reduced) == len(data) and reduced.count(0) > data.count(0)
    assert Index(reduced).search("other") == Index(data).search("other") == "c"
    with pytest.raises(NotCollected):
        Index(reduced).matches("other")  # the pattern "*" was left out, and would match
    whole = index_reduce.reduce(data, lambda key, values: True)
    assert whole == data


@pytest.mark.parametrize("size", [0, 8, 16, 50])
def test_an_index_that_cannot_be_read_is_not_reduced(size: int) -> None:
    assert (
        index_reduce.reduce(index({"alpha": "a", "alphabet": "b"})[:size], lambda key, values: True) is None
    )


def test_behind_the_end_newer_versions_find_nothing() -> None:
    cut = HEADER.pack(0xB007F457, 0x20001, 0x20002000)
    assert Index(cut, bounded=lambda: True).search("x") is None
    assert Index(cut, bounded=lambda: True).matches("x") == ()


@pytest.mark.parametrize("header", [(1, 0x20001, 12), (0xB007F457, 0x10001, 12), (0xB007FA57, 0x20001, 12)])
def test_another_magic_number_or_version_is_not_an_index(header: tuple[int, int, int]) -> None:
    with pytest.raises(FormatError):
        search(HEADER.pack(*header) + bytes(100), "x")
    assert complaint(HEADER.pack(*header)).split()[0] in ("magic", "major")


def test_an_offset_behind_the_last_page_is_an_error() -> None:
    with pytest.raises(FormatError):
        search(HEADER.pack(0xB007F457, 0x20001, 0x20002000), "x")


def test_an_index_is_searched_any_number_of_times() -> None:
    """A node keeps its indexes, and the bound on nodes is that of one search."""
    whole = Index(index({"alpha": "a.ko:"}))

    assert {whole.search("alpha") for _ in range(100_001)} == {"a.ko:"}


@given(st.binary(), st.text())
def test_any_bytes_are_an_answer_or_a_format_error(data: bytes, key: str) -> None:
    whole = index({"alpha": "a.ko:", "alphabet": "b.ko:"})
    for content in (data, whole[:12] + data, whole[: len(data)] + data):
        with contextlib.suppress(FormatError):
            search(content, key)
        with contextlib.suppress(FormatError):
            None if is_ignored(content) else Index(content).matches(key)
        index_reduce.reduce(content, lambda key, values: b"b" in key)
