"""modprobe reads the compiled indexes and never the text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.node import Node
from tests.index_builder import index
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe
from tests.loader.modprobe_witness import Machine, needs_modprobe
from tests.loader.test_honesty import Unseen
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, build_module

DEP, BIN = f"{FOLDER}/modules.dep", f"{FOLDER}/modules.dep.bin"
FATAL = f"modprobe: FATAL: Module x not found in directory /lib/modules/{RELEASE}"


def one() -> KernelTree:
    return KernelTree().module("x")


@needs_modprobe
@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "older", "whole"])
def test_what_the_text_lists_is_not_found_unless_the_index_has_it(tmp_path: Path, damage: str) -> None:
    tree = one()
    machine = Machine(tmp_path, {tree.paths["x"]: build_module("x")})
    compiled = machine.file("modules.dep.bin")
    contents = {
        "empty": b"",
        "cut": compiled.read_bytes()[:20],
        "older": index({"y": "extra/y.ko:"}),
        "whole": compiled.read_bytes(),
    }
    if damage == "gone":
        compiled.unlink()
        tree.without(BIN)
    else:
        compiled.write_bytes(contents[damage])
        tree.put(BIN, contents[damage])
    found = modprobe(tree.node(), "x")
    assert (machine.modprobe("x").returncode == 0) is found.loaded is (damage == "whole")
    if damage != "whole":
        assert (found.exit_code, found.stderr, found.reason) == (1, (FATAL,), "module-not-found")
        assert found.confidence is Confidence.CERTAIN


def test_the_index_decides_where_the_text_lists_other_files() -> None:
    """The text was written again, and depmod stopped before it wrote the index."""
    line = f"kernel/y.ko: {KernelTree().module('x').paths['x']}"
    tree = one().module("y").put(BIN, index({"x": "updates/dkms/x.ko:", "y": line}))
    found = modprobe(tree.put(f"{FOLDER}/kernel/y.ko", build_module("y")).node(), "y")
    assert found.inserted == ("x", "y")


def test_a_copy_of_the_texts_alone_says_nothing_of_the_indexes() -> None:
    """depmod writes both in one run; one that is missing beside others is a fault: see above."""
    tree = one()
    for name in ("dep", "alias", "symbols", "builtin"):
        tree.without(f"{FOLDER}/modules.{name}.bin")
    found = modprobe(tree.node(), "x")
    assert (found.loaded, found.confidence) == (True, Confidence.LIKELY)


def test_an_index_that_was_not_collected_leaves_the_texts_answer_likely() -> None:
    found = modprobe(Node(Unseen(one().host(), BIN)), "x")
    assert (found.loaded, found.confidence) == (True, Confidence.LIKELY)


def test_without_any_index_of_the_folder_modprobe_finds_nothing() -> None:
    files = {path: content for path, content in one().host().files.items() if not path.startswith(DEP)}
    found = modprobe(Node(MemoryHost(files, complete=True)), "x")
    assert (found.exit_code, found.stderr, found.confidence) == (1, (FATAL,), Confidence.CERTAIN)


@needs_modprobe
@pytest.mark.parametrize("name", ["dep", "alias", "symbols", "builtin", "builtin.alias"])
def test_of_a_file_that_is_no_index_modprobe_complains_and_finds_nothing_in_it(
    tmp_path: Path, name: str
) -> None:
    tree = one().put(f"{FOLDER}/modules.alias", "")
    machine = Machine(tmp_path, {tree.paths["x"]: build_module("x")})
    machine.file(f"modules.{name}.bin").write_bytes(b"BOOTFAST" * 9)
    said = machine.modprobe("x")
    found = modprobe(tree.put(f"{FOLDER}/modules.{name}.bin", b"BOOTFAST" * 9).node(), "x")
    assert found.exit_code == said.returncode == (name == "dep")
    assert [line.partition("magic")[2] for line in found.stderr if "magic" in line] == [
        line.partition("magic")[2] for line in said.stderr.splitlines() if "magic" in line
    ]


@needs_modprobe
@pytest.mark.parametrize("index_name", ["alias", "builtin", "symbols"])
def test_each_lookup_needs_its_own_index(tmp_path: Path, index_name: str) -> None:
    tree = KernelTree().module("x", exports={"hello": 7}, modinfo=[("alias", "nick")])
    tree.put(f"{FOLDER}/modules.alias", "alias nick x\n")
    content = build_module("x", exports={"hello": 7}, modinfo=[("alias", "nick")])
    machine = Machine(tmp_path, {tree.paths["x"]: content})
    asked = {"alias": "nick", "builtin": "crc32", "symbols": "x"}[index_name]
    gone = f"modules.{index_name}.bin"
    machine.file(gone).unlink()
    with_it = modprobe(tree.node(), asked)
    found = modprobe(tree.without(f"{FOLDER}/{gone}").node(), asked)
    assert machine.modprobe(asked).returncode == found.exit_code == (index_name != "symbols")
    assert with_it.exit_code == 0


@pytest.mark.parametrize("size", [10, 11])
def test_an_index_with_half_a_root_may_make_an_older_kmod_crash(size: int) -> None:
    """Observed with kmod 30, whatever the text lists. Since 34 the size is checked."""
    tree = one().put(BIN, index({"x": "extra/x.ko:"})[:size])
    with pytest.raises(EvidenceMissing):
        modprobe(tree.node(), "x")
    newer = tree.put("etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
    assert modprobe(newer.node(), "x").stderr == (FATAL,)


def test_an_index_of_builtin_modules_that_is_none_leaves_the_answer_open() -> None:
    tree = one().put(f"{FOLDER}/modules.builtin.bin", index({"z": ""})[:8] + b"\x20\xff\xff\xff")
    with pytest.raises(EvidenceMissing):
        modprobe(tree.node(), "x")
