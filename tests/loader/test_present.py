"""A module whose own name the kernel has already, brought by a file of another name or being loaded."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.rules.dependency_failed import dependency_failed
from gdrkit.rules.engine import judge
from gdrkit.rules.module_subjects import file_name
from gdrkit.rules.module_symbols import module_symbol_duplicate
from gdrkit.rules.rule import Failed, Passed
from tests.kernel_tree import KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import could_not, stub
from tests.module_builder import build_module

EXPORTS = {"provided": 7}


def renamed(state: str = "Live", **shape: object) -> KernelTree:
    """As Debian's nvidia-current: the file of a module that is loaded under its own name."""
    built = build_module("provider", exports=EXPORTS, **shape)  # type: ignore[arg-type]
    tree = KernelTree().module(
        "provider_current", content=built, exports=EXPORTS, file="provider-current.ko"
    )
    tree.module("user", imports=EXPORTS, depends=("provider_current",), intree=True)
    lines = "reference 16384 0 - Live 0x0\n" + f"provider 16384 0 - {state} 0x0 (OE)\n" * bool(state)
    table = "0 d __ksymtab_provided\t[provider]\n" if state else ""
    tree.put("proc/kallsyms", f"0 T _printk\n0 d __ksymtab__printk\n0 d __ksymtab_x\t[reference]\n{table}")
    return tree.put("proc/modules", lines)


def test_the_name_is_looked_up_before_the_exports() -> None:
    """Linux kernel/module/main.c: add_unformed_module() returns EEXIST, and load_module() does not reach
    complete_formation(). modprobe takes that for success."""
    found = modprobe(renamed().node(), "provider-current")
    assert (found.exit_code, found.loaded, found.stderr) == (0, True, ())
    assert (found.reason, found.confidence, found.inserted) == ("", Confidence.CERTAIN, ())


def test_with_first_time_the_same_is_an_error() -> None:
    found = modprobe(renamed().node(), "provider-current", ("--first-time",))
    assert (found.exit_code, found.stderr) == (
        1,
        could_not("Module already in kernel", module="provider_current"),
    )


def test_before_6_4_the_information_taints_and_the_signature_does_not() -> None:
    """check_modinfo() comes before the name, the taint of an unverified signature after it."""
    found = modprobe(renamed().node(), "provider-current")
    assert found.kernel_log == ("provider: loading out-of-tree module taints kernel.",)
    assert found.tainted == 1 << 12


def test_what_is_refused_before_the_name_is_looked_up_stays_refused() -> None:
    """The near miss: a file for another kernel is refused by check_modinfo()."""
    found = modprobe(renamed(vermagic="6.1.0-56-amd64 mod_unload ").node(), "provider-current")
    assert (found.exit_code, found.reason) == (1, "module-wrong-kernel")


def test_another_module_with_the_same_export_is_still_a_duplicate() -> None:
    tree = renamed("").module("rival", exports=EXPORTS, at="extra")
    tree.put("proc/modules", "reference 16384 0 - Live 0x0\nrival 16384 0 - Live 0x0 (OE)\n")
    tree.put("proc/kallsyms", "0 d __ksymtab__printk\n0 d __ksymtab_provided\t[rival]\n")
    found = modprobe(tree.node(), "provider-current")
    assert (found.exit_code, found.reason) == (1, "module-symbol-duplicate")
    assert isinstance(judge(tree.node(), module_symbol_duplicate, "provider_current"), Failed)


def test_a_dependency_that_runs_under_its_own_name_serves_what_needs_it() -> None:
    found = modprobe(renamed().node(), "user")
    assert (found.exit_code, found.loaded, found.inserted) == (0, True, ("user",))


def test_the_rules_agree_with_the_prediction() -> None:
    node = renamed().node()
    assert isinstance(judge(node, module_symbol_duplicate, "provider_current"), Passed)
    assert isinstance(judge(node, dependency_failed, "user"), Passed)


def test_two_files_of_one_module_in_one_run_load_once() -> None:
    tree = renamed("").module("provider", exports=EXPORTS, at="extra")
    tree.put("etc/modprobe.d/a.conf", "softdep provider_current pre: provider\n")
    found = modprobe(tree.node(), "provider-current")
    assert (found.exit_code, found.loaded, found.inserted) == (0, True, ("provider",))


@pytest.mark.parametrize("state", ["Loading", "Unloading"])
def test_a_module_on_its_way_in_or_out_leaves_the_result_open(state: str) -> None:
    """The kernel waits for the end of its init, or answers EBUSY: module_patient_check_exists()."""
    assert modprobe(renamed(state).node(), "provider-current").result_unknown
    tree = KernelTree().module("x", loaded="OE")
    tree.put("proc/modules", f"reference 16384 0 - Live 0x0\nx 16384 0 - {state} 0x0 (OE)\n")
    assert modprobe(tree.node(), "x").result_unknown


def test_rules_about_peermems_file_are_silent_while_it_is_loaded() -> None:
    """Debian's file is nvidia-current-peermem.ko; the kernel's name is nvidia_peermem."""
    tree = KernelTree().module(
        "nvidia_current_peermem", content=stub("nvidia_peermem"), file="nvidia-current-peermem.ko"
    )
    assert file_name(tree.node()) == "nvidia_current_peermem"
    tree.loaded["nvidia_peermem"] = "OE"
    assert file_name(tree.node()) == "nvidia_peermem"
