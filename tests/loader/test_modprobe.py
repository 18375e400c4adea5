"""Predictions that modprobe alone decides: its index, configuration and chains."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence
from gdrkit.node import Node
from tests.kernel_tree import FOLDER, KernelTree
from tests.known_answers import modprobe
from tests.loader.shared import could_not, stub
from tests.memory_host import MemoryHost
from tests.module_builder import build_module


def test_a_module_that_is_not_found_is_named_as_spelled() -> None:
    found = modprobe(KernelTree().node(), "nvidia-peermem")
    assert (found.exit_code, found.loaded, found.reason) == (1, False, "module-not-found")
    assert found.stderr == (
        "modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/6.1.0-56-amd64",
    )
    assert (found.kernel_log, found.confidence) == ((), Confidence.CERTAIN)


def test_a_file_removed_after_depmod_reads_like_a_missing_symbol() -> None:
    tree = KernelTree().module("x")
    found = modprobe(tree.without(tree.path("x")).node(), "x")
    assert found.reason == "module-not-found"
    assert found.stderr == could_not("Unknown symbol in module, or unknown parameter (see dmesg)")


def test_a_loaded_or_built_in_module_is_already_present() -> None:
    tree = KernelTree().module("x", loaded="OE")
    assert modprobe(tree.node(), "x").loaded
    assert modprobe(tree.node(), "x").stderr == ()
    built_in = modprobe(tree.node(), "crc32")
    assert (built_in.exit_code, built_in.loaded, built_in.builtin) == (0, False, True)
    assert not modprobe(tree.node(), "x").builtin
    first = modprobe(tree.node(), "x", ("--first-time",))
    assert (first.exit_code, first.stderr) == (1, could_not("Module already in kernel"))


def test_a_blacklist_applies_only_with_its_option_and_to_aliases() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "blacklist x\nalias nick x\n")
    assert modprobe(tree.node(), "x").loaded
    for found in (modprobe(tree.node(), "x", ("-b",)), modprobe(tree.node(), "nick")):
        assert (found.exit_code, found.loaded, found.reason) == (0, False, "module-blacklisted")


def test_install_false_fails_with_two_lines() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/false\n")
    found = modprobe(tree.node(), "x")
    assert found.stderr == (
        "modprobe: ERROR: ../libkmod/libkmod-module.c:1047 command_do() Error running install command "
        "'/bin/false' for module x: retcode 1",
        *could_not("Invalid argument"),
    )
    assert found.reason == "install-override"
    assert modprobe(tree.node(), "x", ("--ignore-install",)).loaded
    elsewhere = modprobe(tree.put("etc/os-release", "ID=fedora\n").node(), "x")
    assert (
        elsewhere.stderr[0]
        == "modprobe: ERROR: Error running install command '/bin/false' for module x: retcode 1"
    )


def test_install_true_succeeds_and_loads_nothing() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/true\n")
    found = modprobe(tree.node(), "x")
    assert (found.exit_code, found.loaded, found.stderr) == (0, False, ())
    assert found.reason == "install-override"


def test_an_unknown_command_makes_the_result_unknown() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /usr/bin/decide\n")
    found = modprobe(tree.node(), "x")
    assert found.result_unknown
    assert not found.loaded


def test_debians_install_lines_lead_to_the_renamed_module() -> None:
    tree = KernelTree().module("nvidia_current", content=build_module("nvidia"), file="nvidia-current.ko")
    tree.module("nvidia_current_peermem", content=stub("nvidia_peermem"), file="nvidia-current-peermem.ko")
    tree.put(
        "etc/modprobe.d/nvidia.conf",
        "install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n"
        "install nvidia-peermem modprobe nvidia ; modprobe -i nvidia-current-peermem $CMDLINE_OPTS\n",
    )
    found = modprobe(tree.node(), "nvidia-peermem")
    assert found.stderr[0] == could_not("Invalid argument", "nvidia_current_peermem")[0]
    assert found.stderr[1].endswith(
        "'modprobe nvidia ; modprobe -i nvidia-current-peermem ' for module nvidia_peermem: retcode 1"
    )
    assert found.stderr[2] == could_not("Invalid argument", "nvidia_peermem")[0]
    assert found.reason == "peermem-stub"


def test_an_install_line_that_calls_itself_ends() -> None:
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x modprobe x\n")
    assert modprobe(tree.node(), "x").result_unknown


def test_a_module_with_soft_dependencies_ignores_its_install_line() -> None:
    tree = KernelTree().module("x").module("y")
    tree.put("etc/modprobe.d/a.conf", "install x /bin/false\nsoftdep x pre: y nosuch\n")
    found = modprobe(tree.node(), "x")
    assert found.loaded
    assert found.kernel_log[0].startswith("y: ")


def test_a_soft_dependency_that_fails_stops_nothing() -> None:
    tree = KernelTree().module("x").module("y", imports={"nowhere": 1})
    tree.put("etc/modprobe.d/a.conf", "softdep x pre: y\n")
    found = modprobe(tree.node(), "x")
    assert (found.loaded, found.reason, found.stderr) == (True, "", ())
    assert "y: Unknown symbol nowhere (err -2)" in found.kernel_log


def test_the_failure_of_a_dependency_names_the_requested_module() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7}, imports={"nowhere": 1})
    tree.module("x", imports={"hello": 7}, depends=("provider",))
    found = modprobe(tree.node(), "x")
    assert found.stderr == could_not("Unknown symbol in module, or unknown parameter (see dmesg)")
    assert found.kernel_log[-1] == "provider: Unknown symbol nowhere (err -2)"
    assert found.reason == "dependency-failed"


def test_symbols_of_a_dependency_blocked_by_an_install_line_are_missing() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7})
    tree.module("x", imports={"hello": 7}, depends=("provider",))
    tree.put("etc/modprobe.d/a.conf", "install provider /bin/true\n")
    found = modprobe(tree.node(), "x")
    assert found.kernel_log[-1] == "x: Unknown symbol hello (err -2)"


def test_a_taint_is_inherited_by_the_next_module() -> None:
    tree = KernelTree().module("provider", exports={"hello": 7})
    tree.module("x", imports={"hello": 7}, depends=("provider",))
    log = modprobe(tree.node(), "x").kernel_log
    assert [line.split(":")[0] for line in log] == ["provider", "provider"]


@pytest.mark.parametrize("line", ["alias nick x", "install nick /sbin/modprobe x\ninstall x exit 0"])
def test_modprobe_prints_an_error_for_a_module_that_only_its_configuration_names(line: str) -> None:
    tree = KernelTree().put("etc/modprobe.d/a.conf", f"{line}\n")
    tree.put("etc/os-release", 'ID=debian\nVERSION_ID="12"\n')
    found = modprobe(tree.node(), "nick", ("-i",))
    assert found.exit_code == 1 and found.reason == "module-not-found"
    name = "x" if line.startswith("alias") else "nick"
    assert found.stderr == (
        "modprobe: ERROR: ../libkmod/libkmod-module.c:895 kmod_module_insert_module() "
        f"could not find module by name='{name}'",
        *could_not("Unknown symbol in module, or unknown parameter (see dmesg)", name),
    )


@pytest.mark.parametrize(
    ("target", "words"), [("x.ko", "Too many levels of symbolic links"), ("/dev/null", "Invalid argument")]
)
def test_a_module_file_may_be_a_link_to_itself_or_to_nothing(target: str, words: str) -> None:
    tree = KernelTree().module("x")
    files = {path: content for path, content in tree.host().files.items() if path != tree.path("x")}
    found = modprobe(Node(MemoryHost(files, links={tree.path("x"): target}, complete=True)), "x")
    assert (found.exit_code, found.loaded, found.unless) == (1, False, ())
    assert found.stderr[-1] == f"modprobe: ERROR: could not insert 'x': {words}"


def test_options_of_the_configuration_end_with_a_blank() -> None:
    """Where the command line has none: module_options_concat()."""
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", "options x -- a=1\n")
    assert "x: parameters 'a=1 ' after `--' ignored" in modprobe(tree.node(), "x").kernel_log
    assert "x: parameters 'a=1 b' after `--' ignored" in modprobe(tree.node(), "x", ("b",)).kernel_log


def test_of_an_alias_of_several_modules_all_must_be_loaded() -> None:
    tree = (
        KernelTree()
        .module("x")
        .module("y", vermagic="6.1.0 UP ")
        .put(f"{FOLDER}/modules.alias", "alias lab:* x\nalias lab:a* y\n")
    )
    found = modprobe(tree.node(), "lab:ab")
    assert (found.inserted, found.loaded) == (("x",), False)
    assert modprobe(tree.node(), "lab:b").loaded
