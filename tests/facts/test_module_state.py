"""Whether a file is a valid module, and one for this kernel."""

from __future__ import annotations

import lzma

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.module_state import (
    Corruption,
    KernelMismatch,
    boot_blacklist,
    file_flaw,
    kernel_match,
    kernel_name,
)
from tests.kernel_tree import KernelTree
from tests.module_builder import STRUCT_MODULE_SIZE, VERMAGIC, build_module

GOOD = build_module("x")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", Corruption.EMPTY),
        (b"\x7fELF", Corruption.EMPTY),
        (lzma.compress(GOOD)[:200], Corruption.COMPRESSED),
        (GOOD[:40], Corruption.SHORT),
        (b"#!/bin/sh\n" * 20, Corruption.MAGIC),
        (GOOD[:16] + b"\x03\x00" + GOOD[18:], Corruption.TYPE),
        (build_module("x", machine="aarch64"), Corruption.MACHINE),
        (GOOD[: len(GOOD) // 2], Corruption.TABLE),
    ],
)
def test_each_kind_of_damage_has_its_own_name(content: bytes, kind: Corruption) -> None:
    tree = KernelTree().module("x", content=content)
    found = file_flaw(tree.node(), tree.path("x"))
    assert found is not None and found.kind is kind


def test_a_valid_file_has_no_flaw_compressed_or_not() -> None:
    tree = KernelTree().module("x", content=GOOD).module("y", content=lzma.compress(GOOD), file="y.ko.xz")
    assert file_flaw(tree.node(), tree.path("x")) is None
    assert file_flaw(tree.node(), tree.path("y")) is None


def test_a_file_that_was_not_collected_is_not_corrupt() -> None:
    tree = KernelTree(complete=False).module("x")
    path = tree.path("x")
    with pytest.raises(EvidenceMissing):
        file_flaw(tree.without(path).node(), path)


def a_fit(release: str = "", **shape: object) -> tuple[KernelMismatch | None, tuple[str, ...]]:
    tree = KernelTree().module("x", **shape)
    if release:
        tree.put("proc/sys/kernel/osrelease", release)
    found = kernel_match(tree.node(), "x")
    return found.misfit, found.forced


OTHER_RELEASE = VERMAGIC["x86_64"].replace("6.1.0-56", "6.1.0-9")


def test_another_release_passes_with_symbol_versions_and_not_without() -> None:
    assert a_fit(vermagic=OTHER_RELEASE) == (None, ())
    assert a_fit(vermagic=OTHER_RELEASE, versions=False) == (KernelMismatch.VERMAGIC, ("module_layout",))


def test_other_flags_never_pass() -> None:
    assert a_fit(vermagic=VERMAGIC["x86_64"].replace("SMP ", "")) == (KernelMismatch.VERMAGIC, ())


def test_another_layout_means_another_kernel() -> None:
    assert a_fit(module_layout=1) == (KernelMismatch.LAYOUT, ())


def test_a_module_without_versions_is_forced_where_the_kernel_allows_it() -> None:
    assert a_fit(versions=False) == (None, ("module_layout",))
    tree = KernelTree().module("x", versions=False)
    tree.put("boot/config-6.1.0-56-amd64", "#\nCONFIG_MODULE_SIG=y\n")
    assert kernel_match(tree.node(), "x").misfit is KernelMismatch.NO_VERSIONS


def test_the_size_of_struct_module_counts_since_linux_6_4() -> None:
    """Only the text of the release differs here; the folder is that of the tree."""
    tree = KernelTree().module("x", struct_module_size=STRUCT_MODULE_SIZE["x86_64"] + 64)
    assert kernel_match(tree.node(), "x").misfit is None
    newer = {path.replace("6.1.0-56-amd64", "6.12.1-amd64"): content for path, content in tree.files.items()}
    lists = tree._lists()
    tree.files = newer | {k.replace("6.1.0-56-amd64", "6.12.1-amd64"): v for k, v in lists.items()}
    tree.put("proc/sys/kernel/osrelease", "6.12.1-amd64\n")
    assert kernel_match(tree.node(), "x").misfit is KernelMismatch.STRUCT_SIZE


def test_the_kernels_blacklist_is_the_last_one_on_its_command_line() -> None:
    tree = KernelTree().put("proc/cmdline", "module_blacklist=a module_blacklist=b,nvidia_peermem\n")
    assert boot_blacklist(tree.node()) == ("b", "nvidia_peermem")
    assert boot_blacklist(KernelTree().node()) == ()


def test_the_kernel_knows_a_module_by_its_own_name() -> None:
    tree = KernelTree()
    tree.module("nvidia_current_peermem", content=build_module("nvidia_peermem"))
    assert kernel_name(tree.node(), "nvidia_current_peermem") == "nvidia_peermem"
