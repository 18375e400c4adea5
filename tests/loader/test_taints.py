"""Predicted taints of loaded modules, and their lines in the kernel's log."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from tests.facts.test_trust import MOK, secured
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import OUT_OF_TREE, TAINTED, TAINTS, UNVERIFIED
from tests.module_builder import build_module, sign


def test_the_first_foreign_module_of_a_boot_logs_two_lines_and_the_next_none() -> None:
    tree = KernelTree().module("x")
    found = modprobe(tree.node(), "x")
    assert found.kernel_log == TAINTS
    assert (found.exit_code, found.loaded, found.result_unknown) == (0, True, True)
    assert modprobe(tree.put("proc/sys/kernel/tainted", TAINTED).node(), "x").kernel_log == ()


def test_without_the_kernels_taint_that_of_its_modules_counts() -> None:
    tree = KernelTree().module("x").module("other", loaded="OE").without("proc/sys/kernel/tainted")
    found = modprobe(tree.node(), "x")
    assert (found.kernel_log, found.confidence) == ((), Confidence.LIKELY)


def test_in_tree_modules_add_no_taint() -> None:
    tree = secured()
    tree.module("own", content=sign(build_module("own", intree=True), MOK), at="kernel/lib")
    assert modprobe(tree.node(), "own").kernel_log == ()


def test_a_kernel_without_signatures_logs_nothing_about_them() -> None:
    tree = KernelTree().module("x").without("sys/module/module/parameters/sig_enforce")
    tree.put("boot/config-6.1.0-56-amd64", "#\nCONFIG_MODULES=y\n")
    assert modprobe(tree.node(), "x").kernel_log == (OUT_OF_TREE,)


def test_a_symbol_without_a_crc_is_logged_once_per_boot() -> None:
    tree = KernelTree().module("x", imports={"_printk": None, "param_ops_int": None})
    line = "x: no symbol version for _printk"
    assert line in modprobe(tree.node(), "x").kernel_log
    assert "x: no symbol version for param_ops_int" not in modprobe(tree.node(), "x").kernel_log
    tree.commands["dmesg",] = f"[    0.000000] Linux version 6.8.0\n[    9.000000] y{line[1:]}\n"
    assert line not in modprobe(tree.node(), "x").kernel_log


def test_a_proprietary_license_disables_lock_debugging_once() -> None:
    tree = KernelTree().module("x", license="NVIDIA")
    assert modprobe(tree.node(), "x").kernel_log == (
        OUT_OF_TREE,
        "x: module license 'NVIDIA' taints kernel.",
        "Disabling lock debugging due to kernel taint",
        UNVERIFIED,
    )
    tree.put("proc/sys/kernel/tainted", "2")  # a forced module was loaded before
    assert "Disabling lock debugging due to kernel taint" not in modprobe(tree.node(), "x").kernel_log


def test_staging_and_test_modules_are_logged() -> None:
    tree = KernelTree().module("x", modinfo={"staging": "Y", "test": "Y"})
    assert modprobe(tree.node(), "x").kernel_log == (
        OUT_OF_TREE,
        "x: module is from the staging directory, the quality is unknown, you have been warned.",
        "x: loading test module taints kernel.",
        UNVERIFIED,
    )


def test_a_module_without_retpolines_is_logged_where_they_matter() -> None:
    tree = KernelTree().module("x", retpoline=False).put("proc/sys/kernel/tainted", TAINTED)
    tree.put("boot/config-6.1.0-56-amd64", "#\nCONFIG_MODULE_SIG=y\nCONFIG_RETPOLINE=y\n")
    path = "sys/devices/system/cpu/vulnerabilities/spectre_v2"
    assert modprobe(tree.put(path, "Not affected\n").node(), "x").kernel_log == ()
    assert modprobe(tree.put(path, "Mitigation: Retpolines\n").node(), "x").kernel_log == (
        "Spectre V2 : System may be vulnerable to spectre v2",
        "x: loading module not compiled with retpoline compiler.",
    )
