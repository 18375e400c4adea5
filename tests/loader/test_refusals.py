"""Predicted refusals by the kernel, in the order of its checks."""

from __future__ import annotations

import pytest

from gdrkit.facts.linkage import InheritedTaint, SymbolFault, SymbolProblem
from gdrkit.facts.module_state import Corruption, ModuleFlaw
from gdrkit.loader.refusals import on_flaw, on_inherited, on_problem
from tests.facts.test_trust import PLAIN
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import TAINTED, TAINTS, could_not
from tests.module_builder import VERMAGIC, build_module


@pytest.mark.parametrize(
    ("content", "error", "line"),
    [
        (b"", "Invalid argument", ""),
        (b"garbage " * 50, "Exec format error", "Invalid ELF header magic: != \\x7fELF"),
        (PLAIN[: len(PLAIN) // 2], "Exec format error", "Invalid ELF section header overflow"),
        (
            build_module("x", machine="aarch64"),
            "Exec format error",
            "Invalid architecture in ELF header: 183",
        ),
    ],
)
def test_files_that_are_not_modules(content: bytes, error: str, line: str) -> None:
    found = modprobe(KernelTree().module("x", content=content).node(), "x")
    assert (found.stderr, found.kernel_log) == (could_not(error), (line,) if line else ())
    assert found.reason == "module-corrupt"


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ("4.18.0", ""),
        ("5.4.214", "Module has invalid ELF structures"),
        ("5.14.0", "Module has invalid ELF structures"),
        ("5.15.215", "Invalid ELF header magic: != \\x7fELF"),
        ("6.18.0", "Invalid ELF header magic: != \\x7fELF"),
    ],
)
def test_older_kernels_log_less_about_files_that_are_not_modules(release: str, line: str) -> None:
    """kernel/module.c, elf_header_check() of 4.18, load_module() of 5.4 and 5.14."""
    node = KernelTree().put("proc/sys/kernel/osrelease", f"{release}\n").node()
    assert on_flaw(node, ModuleFlaw(Corruption.MAGIC), "x") == line


@pytest.mark.parametrize(
    ("release", "line"),
    [
        ("6.1.0", "x: No module found in object"),
        ("6.6.0", "module x: Only one .gnu.linkonce.this_module section must exist."),
        ("6.12.0", "module x: Only one .gnu.linkonce.this_module section must exist."),
        ("6.18.0", "module x: Exactly one .gnu.linkonce.this_module section must exist."),
    ],
)
def test_the_message_for_a_file_without_a_module_changed_in_6_4(release: str, line: str) -> None:
    """kernel/module/main.c: setup_load_info(), elf_validity_cache_copy(), elf_validity_cache_index_mod()."""
    node = KernelTree().put("proc/sys/kernel/osrelease", f"{release}\n").node()
    assert on_flaw(node, ModuleFlaw(Corruption.NO_MODULE), "x") == line


@pytest.mark.parametrize(("release", "error"), [("4.18.0", "0"), ("4.19.0", "-2"), ("6.18.0", "-2")])
def test_a_missing_symbol_had_no_error_number_before_4_19(release: str, error: str) -> None:
    """kernel/module.c, simplify_symbols()."""
    node = KernelTree().put("proc/sys/kernel/osrelease", f"{release}\n").node()
    missing = SymbolProblem("nowhere", SymbolFault.MISSING)
    assert on_problem(node, "x", missing) == [f"x: Unknown symbol nowhere (err {error})"]


@pytest.mark.parametrize(
    ("release", "named"), [("5.15.0", ""), ("5.19.0", "get_pages "), ("6.18.0", "get_pages ")]
)
def test_symbols_from_a_proprietary_module_are_named_since_5_19(release: str, named: str) -> None:
    """kernel/module/main.c, inherit_taint()."""
    node = KernelTree().put("proc/sys/kernel/osrelease", f"{release}\n").node()
    tail = f"uses symbols {named}from proprietary module nvidia"
    assert (
        on_inherited(node, "x", InheritedTaint("get_pages", "nvidia"))
        == f"x: module {tail}, inheriting taint."
    )
    refused = SymbolProblem("get_pages", SymbolFault.PROPRIETARY, owner="nvidia")
    assert on_problem(node, "x", refused)[0] == f"x: module using GPL-only symbols {tail}."


def test_an_arm_machine_refuses_x86_modules() -> None:
    tree = KernelTree(machine="aarch64").put("proc/sys/kernel/arch", "aarch64\n")
    assert modprobe(tree.module("x").node(), "x").loaded
    found = modprobe(tree.module("x", machine="x86_64").node(), "x")
    assert found.kernel_log == ("Invalid architecture in ELF header: 62",)


def test_the_kernels_blacklist_is_checked_before_the_version() -> None:
    tree = KernelTree().module("x", module_layout=1).put("proc/cmdline", "module_blacklist=x\n")
    found = modprobe(tree.node(), "x")
    assert (found.stderr, found.kernel_log) == (
        could_not("Operation not permitted"),
        ("Module x is blacklisted",),
    )


def test_modules_disabled_refuses_every_module() -> None:
    tree = KernelTree().module("x", content=b"garbage " * 50).put("proc/sys/kernel/modules_disabled", "1\n")
    found = modprobe(tree.node(), "x")
    assert (found.stderr, found.kernel_log) == (could_not("Operation not permitted"), ())
    assert found.reason == "modules-disabled"


def test_a_module_of_another_kernel() -> None:
    flags = VERMAGIC["x86_64"].replace("SMP", "UP")
    found = modprobe(KernelTree().module("x", vermagic=flags).node(), "x")
    assert found.stderr == could_not("Exec format error")
    assert found.kernel_log == (f"x: version magic '{flags}' should be '{VERMAGIC['x86_64']}'",)
    found = modprobe(KernelTree().module("x", module_layout=1).node(), "x")
    assert found.kernel_log == ("x: disagrees about version of symbol module_layout",)


DEBIAN = "Linux version 6.1.0-56-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP"
NO_LAYOUT = "x: no symbol version for module_layout"


def test_debian_refuses_a_module_with_versions_but_without_module_layout() -> None:
    tree = KernelTree().module("x", module_layout=None).put("proc/version", DEBIAN)
    found = modprobe(tree.node(), "x")
    assert (found.stderr, found.kernel_log) == (could_not("Exec format error"), (NO_LAYOUT,))
    assert found.reason == "module-wrong-kernel"


def test_other_kernels_warn_once_per_boot_and_load_it() -> None:
    tree = KernelTree().module("x", module_layout=None)
    found = modprobe(tree.node(), "x")
    assert found.loaded and found.kernel_log == (NO_LAYOUT, *TAINTS)
    tree.commands[("dmesg",)] = "[    0.0] Linux version\n[   10.0] y: no symbol version for z\n"
    assert NO_LAYOUT not in modprobe(tree.node(), "x").kernel_log


def test_a_module_without_versions_loads_with_the_forced_taint() -> None:
    found = modprobe(KernelTree().module("x", versions=False).node(), "x")
    assert found.loaded
    assert found.kernel_log == (
        "x: module_layout: kernel tainted.",
        "Disabling lock debugging due to kernel taint",
        *TAINTS,
    )


def test_each_missing_symbol_has_a_line_and_the_last_error_is_returned() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7}, loaded="OE")
    tree.put("proc/sys/kernel/tainted", TAINTED)
    missing_first = {"nowhere": 1, "hello": 8}
    found = modprobe(tree.module("x", imports=missing_first).node(), "x")
    assert found.kernel_log == (
        "x: Unknown symbol nowhere (err -2)",
        "x: disagrees about version of symbol hello",
        "x: Unknown symbol hello (err -22)",
    )
    assert (found.stderr, found.reason) == (could_not("Invalid argument"), "module-crc-mismatch")
    found = modprobe(tree.module("x", imports=dict(reversed(missing_first.items()))).node(), "x")
    assert found.stderr == could_not("Unknown symbol in module, or unknown parameter (see dmesg)")


def test_a_namespace_that_is_not_imported() -> None:
    tree = (
        KernelTree().module("x", imports={"dma_buf_get": 0x22222222}).put("proc/sys/kernel/tainted", TAINTED)
    )
    found = modprobe(tree.node(), "x")
    assert found.kernel_log == (
        "x: module uses symbol (dma_buf_get) from namespace DMA_BUF, but does not import it.",
        "x: Unknown symbol dma_buf_get (err -22)",
    )
    assert found.stderr == could_not("Invalid argument")


def test_an_export_that_another_module_has() -> None:
    tree = KernelTree().module("x", exports={"hello": 7}).module("other", exports={"hello": 7}, loaded="OE")
    found = modprobe(tree.put("proc/sys/kernel/tainted", TAINTED).node(), "x")
    assert found.kernel_log == ("x: exports duplicate symbol hello (owned by other)",)
    assert found.stderr == could_not("Exec format error")


def test_parameters_are_all_read_and_the_bad_one_stops_the_module() -> None:
    tree = KernelTree().module("x", parameters={"n": "int"}).put("proc/sys/kernel/tainted", TAINTED)
    found = modprobe(tree.node(), "x", ("n=notanumber", "other=1"))
    assert found.kernel_log == (
        "x: `notanumber' invalid for parameter `n'",
        "x: unknown parameter 'other' ignored",
    )
    assert found.stderr == could_not("Invalid argument")
    found = modprobe(tree.node(), "x", ("n=99999999999",))
    assert found.stderr == could_not("Numerical result out of range")
    assert modprobe(tree.node(), "x", ("other=1",)).loaded
