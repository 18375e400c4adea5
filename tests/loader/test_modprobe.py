"""Predicted output of modprobe and kernel log. tests/lab compares them with real kernels."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.linkage import InheritedTaint, Links, SymbolFault, SymbolProblem, symbol_links
from gdrkit.facts.module_state import Corruption, ModuleFlaw
from gdrkit.facts.peer_memory import PeermemLinkage, peermem_linkage
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check
from gdrkit.loader import Prediction
from gdrkit.loader.refusals import on_flaw, on_inherited, on_problem
from gdrkit.node import Node
from tests.facts.test_trust import MOK, OTHER, PLAIN, altered, secured
from tests.kernel_tree import FOLDER, KERNEL_SYMBOLS, KernelTree, symvers
from tests.known_answers import modprobe
from tests.memory_host import MemoryHost
from tests.module_builder import RELEASE, VERMAGIC, Export, append_signature, build_module, sign

OUT_OF_TREE = "x: loading out-of-tree module taints kernel."
UNVERIFIED = "x: module verification failed: signature and/or required key missing - tainting kernel"
TAINTS = (OUT_OF_TREE, UNVERIFIED)
TAINTED = str(1 << 12 | 1 << 13)


def could_not(error: str, module: str = "x") -> tuple[str, ...]:
    return (f"modprobe: ERROR: could not insert '{module}': {error}",)


def stub(name: str = "x", **shape: object) -> bytes:
    """nvidia-peermem built without the peer-memory API."""
    trivial = {
        "__fentry__": KERNEL_SYMBOLS["__fentry__"].crc,
        "param_ops_int": KERNEL_SYMBOLS["param_ops_int"].crc,
    }
    parameters = {"peerdirect_support": "int", "persistent_api_support": "int"}
    return build_module(name, imports=trivial, parameters=parameters, license="Dual BSD/GPL", **shape)  # type: ignore[arg-type]


def full(tree: KernelTree, loaded: str | None = "OE") -> KernelTree:
    """The full nvidia-peermem, its driver and an RDMA core with the API."""
    tree.module("nvidia", exports={"nvidia_p2p_get_pages": 1}, license="Dual MIT/GPL", loaded=loaded)
    tree.module("ib_core", exports={"ib_register_peer_memory_client": 2}, loaded=loaded)
    return tree.module(
        "nvidia_peermem",
        file="nvidia-peermem.ko",
        imports={"nvidia_p2p_get_pages": 1, "ib_register_peer_memory_client": 2},
        parameters={"peerdirect_support": "int"},
        depends=("nvidia", "ib_core"),
    )


# -- before the kernel ---------------------------------------------------------------------------------


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
    assert modprobe(tree.node(), "crc32").exit_code == 0
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


# -- taints of a loaded module ------------------------------------------------------------------------


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


# -- refusals by the kernel ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "error", "line", "reason"),
    [
        (PLAIN, "Key was rejected by service", "Loading of unsigned module is rejected", "module-unsigned"),
        (
            sign(PLAIN, OTHER),
            "Key was rejected by service",
            "Loading of module with unavailable key is rejected",
            "module-unknown-key",
        ),
        (altered(sign(PLAIN, MOK)), "Key was rejected by service", "", "module-signature-broken"),
        (append_signature(PLAIN, b"x", length=10**6), "Bad message", "", "module-signature-broken"),
        (
            b"garbage " * 50,
            "Key was rejected by service",
            "Loading of unsigned module is rejected",
            "module-unsigned",
        ),
    ],
)
def test_enforced_signatures_are_checked_first(content: bytes, error: str, line: str, reason: str) -> None:
    found = modprobe(secured().module("x", content=content).node(), "x")
    assert (found.stderr, found.kernel_log) == (could_not(error), (line,) if line else ())
    assert (found.reason, found.exit_code) == (reason, 1)


def test_an_unsupported_kind_of_signature_has_one_more_line() -> None:
    content = append_signature(PLAIN, b"x" * 40, id_type=1)
    found = modprobe(secured().module("x", content=content).node(), "x")
    assert found.kernel_log == (
        "module: not signed with expected PKCS#7 message",
        "Loading of module with unsupported crypto is rejected",
    )


def test_a_broken_signature_of_a_trusted_key_is_refused_without_enforcement() -> None:
    tree = secured().module("x", content=altered(sign(PLAIN, MOK)))
    tree.put("sys/module/module/parameters/sig_enforce", "N\n")
    found = modprobe(tree.node(), "x")
    assert (found.stderr, found.reason) == (
        could_not("Key was rejected by service"),
        "module-signature-broken",
    )


def test_lockdown_alone_gives_another_error() -> None:
    tree = KernelTree().module("x").put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    found = modprobe(tree.node(), "x")
    assert found.stderr == could_not("Operation not permitted")
    assert found.kernel_log == (
        "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7",
    )


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


# -- chains --------------------------------------------------------------------------------------------


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


# -- nvidia-peermem ------------------------------------------------------------------------------------


def test_the_stub_returns_invalid_argument_without_a_message() -> None:
    tree = KernelTree().module("nvidia_peermem", content=stub("nvidia_peermem"), file="nvidia-peermem.ko")
    found = modprobe(tree.put("proc/sys/kernel/tainted", TAINTED).node(), "nvidia-peermem")
    assert found.stderr == could_not("Invalid argument", "nvidia_peermem")
    assert (found.kernel_log, found.reason, found.result_unknown) == ((), "peermem-stub", False)
    assert found.confidence is Confidence.CERTAIN


def test_the_stub_is_recognised_by_content_not_by_name() -> None:
    assert modprobe(KernelTree().module("x", content=stub()).node(), "x").reason == "peermem-stub"
    named = KernelTree().module("nvidia_peermem", file="nvidia-peermem.ko")
    assert modprobe(named.node(), "nvidia_peermem").result_unknown


@pytest.mark.parametrize("function", ["_printk", "printk"])
def test_a_stub_of_the_drivers_before_560_imports_printk(function: str) -> None:
    """It checks a parameter before it returns: nvidia-peermem.c of 515.43.04 to 555.58.02."""
    content = build_module("x", imports={function: None}, parameters={"peerdirect_support": "int"})
    tree = KernelTree().module("x", content=content)
    tree.put(f"{FOLDER}/build/Module.symvers", symvers(KERNEL_SYMBOLS | {"printk": Export(1)}))
    assert modprobe(tree.node(), "x").reason == "peermem-stub"


@pytest.mark.parametrize(("version", "logs"), [("555.58.02", True), ("560.35.03", False)])
def test_a_stub_logs_a_refused_parameter_only_before_560(version: str, logs: bool) -> None:
    content = stub("nvidia_peermem", modinfo={"version": version})
    tree = KernelTree().module("nvidia_peermem", content=content, file="nvidia-peermem.ko")
    found = modprobe(tree.node(), "nvidia_peermem", ("peerdirect_support=5",))
    assert found.reason == "peermem-stub"
    assert any("param value 5" in line for line in found.kernel_log) is logs


def test_the_full_module_loads_with_its_provider_and_the_driver() -> None:
    found = modprobe(full(KernelTree()).node(), "nvidia_peermem")
    assert (found.loaded, found.result_unknown, found.reason) == (True, False, "")
    unknown = modprobe(full(KernelTree(), loaded=None).node(), "nvidia_peermem")
    assert (unknown.loaded, unknown.result_unknown) == (True, True)


@pytest.mark.parametrize(
    ("version", "argument", "reason"),
    [
        ("550.54.15", "peerdirect_support=2", "module-bad-parameter"),
        ("550.54.15", "peerdirect_support=-1", "module-bad-parameter"),
        ("550.54.15", "peerdirect_support=0x1", ""),
        ("550.54.15", "persistent_api_support=2", ""),  # unknown to it, and ignored
        ("595.45.04", "persistent-api-support=2", "module-bad-parameter"),
        ("595.45.04", "persistent_api_support=0", ""),
        ("595.45.04", "peerdirect_support=5", "module-bad-parameter"),
        ("", "peerdirect_support=5", ""),  # not NVIDIA's own: its init is not known
    ],
)
def test_peermems_own_check_of_its_parameters(version: str, argument: str, reason: str) -> None:
    """nvidia-peermem.c: its init takes only 0 and 1, of the second parameter since 560.28.03."""
    tree = full(KernelTree())
    parameters = {"peerdirect_support": "int"}
    parameters |= {"persistent_api_support": "int"} if version.startswith("595") else {}
    tree.module(
        "nvidia_peermem",
        file="nvidia-peermem.ko",
        imports={"nvidia_p2p_get_pages": 1, "ib_register_peer_memory_client": 2},
        parameters=parameters,
        modinfo={"version": version} if version else {},
        depends=("nvidia", "ib_core"),
    )
    found = modprobe(tree.node(), "nvidia_peermem", (argument,))
    assert (found.reason, found.loaded) == (reason, not reason)
    assert found.stderr == (could_not("Invalid argument", "nvidia_peermem") if reason else ())
    assert found.certain_lines is None


@pytest.mark.parametrize(
    ("version", "argument", "place"),
    [
        ("515.43.04", "peerdirect_support=2", "nv_mem_param_conf_check:429"),
        ("535.288.01", "peerdirect_support=-1", "nv_mem_param_conf_check:481 ERROR"),
        ("550.163.01", "peerdirect_support=2", "nv_mem_param_conf_check:492 ERROR"),
        ("595.45.04", "peerdirect_support=2", "nv_mem_param_peerdirect_conf_check:619 ERROR"),
        ("575.64.05", "persistent_api_support=2", "nv_mem_param_persistent_api_conf_check:579 ERROR"),
    ],
)
def test_the_line_about_a_refused_parameter_is_that_of_the_version(
    version: str, argument: str, place: str
) -> None:
    """As logged in a guest of the lab by NVIDIA's own module of these versions."""
    tree = full(KernelTree()).module(
        "nvidia_peermem",
        file="nvidia-peermem.ko",
        imports={"nvidia_p2p_get_pages": 1, "ib_register_peer_memory_client": 2},
        parameters={"peerdirect_support": "int", "persistent_api_support": "int"},
        modinfo={"version": version},
        depends=("nvidia", "ib_core"),
    )
    found = modprobe(tree.node(), "nvidia_peermem", (argument,))
    name, _, value = argument.partition("=")
    assert found.kernel_log[-1] == f"nvidia-peermem {place} invalid {name} param value {value}"
    assert found.certain_lines is None


def test_a_loaded_nv_peer_mem_has_the_name_that_peermem_registers() -> None:
    tree = full(KernelTree()).module("nv_peer_mem", loaded="OE")
    assert modprobe(tree.node(), "nvidia_peermem").loaded  # the core does not compare names
    tree.put("sys/kernel/mm/memory_peers/nv_mem/version", "1.3-0\n")
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.reason) == (False, "peermem-registration-refused")
    assert found.stderr == could_not("Invalid argument", "nvidia_peermem")


def test_an_old_refusal_whose_cause_may_be_gone_leaves_the_result_open() -> None:
    tree = full(KernelTree()).module("nv_peer_mem")
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    tree.commands[("dmesg",)] = f"[    0.0] Linux version\n[   10.0] {line}\n"
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.undecided) == (True, True)
    assert found.unless == ("peermem-registration-refused",)


def test_an_old_refusal_alone_does_not_decide_and_a_new_rdma_core_has_no_clients() -> None:
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    for core, unless in (("OE", ("peermem-registration-refused",)), (None, ())):
        tree = full(KernelTree(), loaded=core)
        tree.commands[("dmesg",)] = f"[    0.0] Linux version\n[   10.0] {line}\n"
        found = modprobe(tree.node(), "nvidia_peermem")
        assert (found.loaded, found.reason, found.unless) == (True, "", unless)
        assert line not in found.kernel_log


def test_signing_a_stub_changes_one_error_into_another() -> None:
    tree = secured().module("nvidia_peermem", content=stub("nvidia_peermem"), file="nvidia-peermem.ko")
    node = tree.node()
    assert modprobe(node, "nvidia_peermem").reason == "module-unsigned"
    signed = node.after(
        "sign it",
        [
            signature_check.becomes(
                SignatureCheck(SignatureState.VERIFIED, MOK.name), tree.path("nvidia_peermem")
            )
        ],
    )
    found = modprobe(signed, "nvidia_peermem")
    assert (found.stderr, found.reason) == (could_not("Invalid argument", "nvidia_peermem"), "peermem-stub")
    assert found.confidence is Confidence.ASSUMED


def test_a_rebuild_that_finds_the_api_makes_it_load() -> None:
    tree = full(KernelTree()).module(
        "nvidia_peermem", content=stub("nvidia_peermem"), file="nvidia-peermem.ko"
    )
    node = tree.node()
    rebuilt = node.after(
        "rebuild",
        [
            peermem_linkage.becomes(PeermemLinkage(uses_peer_api=True)),
            symbol_links.becomes(Links(), "nvidia_peermem"),
        ],
    )
    assert modprobe(rebuilt, "nvidia_peermem").reason == ""


def test_a_step_with_an_uncertain_build_makes_the_result_unknown() -> None:
    tree = KernelTree().module("nvidia_peermem", content=stub("nvidia_peermem"), file="nvidia-peermem.ko")
    unsure = Missing("nvidia-peermem.ko", MissingReason.STALE, "modinfo nvidia-peermem")
    found = modprobe(tree.node().after("install OFED", [peermem_linkage.becomes(unsure)]), "nvidia_peermem")
    assert (found.reason, found.result_unknown, found.unless) == ("", True, ("peermem-stub",))


# -- missing evidence ----------------------------------------------------------------------------------


def test_checks_that_could_not_be_made_are_listed_and_the_result_is_likely() -> None:
    tree = KernelTree(complete=False).module("x")
    tree.symvers = False
    tree.module("x", imports={"nowhere": 1})
    found = modprobe(tree.node(), "x")
    assert "module-symbol-missing" in found.unless
    assert found.confidence is Confidence.LIKELY


def test_a_module_whose_file_was_not_collected_is_not_checked() -> None:
    tree = KernelTree(complete=False).module("x")
    tree.put("run/modprobe.d/.keep", "").put("etc/modprobe.d/a.conf", "# none\n")
    for folder in (
        "usr/local/lib/modprobe.d",
        "usr/lib/modprobe.d",
        "lib/modprobe.d",
        "sys/module/x/initstate",
    ):
        tree.put(f"{folder}/.keep", "")
    found = modprobe(tree.without(tree.path("x")).node(), "x")
    assert found.result_unknown
    assert found.unless


def test_without_any_list_of_modules_there_is_no_prediction() -> None:
    with pytest.raises(EvidenceMissing):
        modprobe(KernelTree(complete=False).without("proc/sys/kernel/osrelease").node(), "x")


@pytest.mark.parametrize("gone", ["proc/sys/kernel/osrelease", f"{FOLDER}/modules.dep", FOLDER])
@pytest.mark.parametrize("conf", ["", "alias nvidia-peermem x\n"])
def test_without_an_index_it_is_not_known_which_modules_there_are(gone: str, conf: str) -> None:
    """A container, or a system that keeps its modules elsewhere: no module is known to be absent."""
    whole = KernelTree().module("x").put("etc/modprobe.d/a.conf", conf).host()
    files = {path: content for path, content in whole.files.items() if not path.startswith(gone)}
    with pytest.raises(EvidenceMissing) as caught:
        modprobe(Node(MemoryHost(files, complete=True)), "nvidia-peermem")
    assert caught.value.missing.why is MissingReason.UNDECIDED


@pytest.mark.parametrize(
    ("loaded", "exit_code", "unless", "undecided"),
    [
        (True, 0, (), False),
        (True, 0, ("module-symbol-missing",), True),
        (False, 1, ("module-symbol-missing",), False),  # refused, whichever check comes first
        (False, 1, ("install-override",), True),
        (False, 0, ("module-unknown-key",), True),
    ],
)
def test_a_check_that_was_not_made_leaves_only_a_success_open(
    loaded: bool, exit_code: int, unless: tuple[str, ...], undecided: bool
) -> None:
    found = Prediction(module="x", exit_code=exit_code, loaded=loaded, unless=unless)
    assert found.undecided is undecided


# -- a module without a file -------------------------------------------------------------------------


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


# -- an init of unknown result ------------------------------------------------------------------------


def two(tree: KernelTree, **user: object) -> KernelTree:
    """A module, and another one that uses its symbol."""
    tree.module("needed", exports={"alpha": 1}, license="Proprietary")
    return tree.module("x", depends=("needed",), **({"imports": {"alpha": 1}} | user))  # type: ignore[arg-type]


def test_lines_after_an_unknown_init_are_marked_uncertain() -> None:
    found = modprobe(two(KernelTree()).node(), "x")
    assert found.result_unknown and found.assumes == ("needed", "x")
    inherited = "x: module uses symbols alpha from proprietary module needed, inheriting taint."
    assert inherited in found.kernel_log[found.certain_lines :]
    assert any("module license" in line for line in found.kernel_log[: found.certain_lines])


def test_a_failure_after_an_unknown_init_names_that_module() -> None:
    found = modprobe(two(KernelTree(), imports={"alpha": 2}).node(), "x")
    assert (found.exit_code, found.loaded, found.stderr) == (1, False, could_not("Invalid argument"))
    assert (found.result_unknown, found.assumes) == (False, ("needed",))
    assert found.confidence is Confidence.LIKELY


def test_nothing_is_assumed_about_a_module_that_is_already_loaded() -> None:
    tree = KernelTree().module("needed", exports={"alpha": 1}, loaded="OE")
    tree.module("x", depends=("needed",), imports={"alpha": 2})
    found = modprobe(tree.node(), "x")
    assert (found.assumes, found.certain_lines) == ((), None)


# -- digests without a self-test ---------------------------------------------------------------------


UNTESTED = "alg: No test for pkcs1pad(rsa,sha1) (pkcs1pad(rsa-generic,sha1))"


@pytest.mark.parametrize(("digest", "said"), [("sha1", True), ("sha256", False)])
def test_the_first_check_of_a_digest_without_a_test_is_logged(digest: str, said: bool) -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest=digest))
    assert (UNTESTED in modprobe(tree.node(), "x").kernel_log) is said


def test_it_is_logged_once_per_boot() -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest="sha1"))
    tree.commands[("dmesg",)] = f"[    0.0] Linux version\n[   10.0] {UNTESTED}\n"
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log


def test_a_signature_of_an_unknown_signer_is_never_checked() -> None:
    tree = secured().module("x", content=sign(PLAIN, OTHER, digest="sha1"))
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log


def test_a_kernel_built_without_self_tests_logs_nothing_about_them() -> None:
    tree = secured().module("x", content=sign(PLAIN, MOK, digest="sha1"))
    config = f"boot/config-{RELEASE}"
    tree.put(config, f"{tree.files[config]}CONFIG_CRYPTO_MANAGER_DISABLE_TESTS=y\n")
    assert UNTESTED not in modprobe(tree.node(), "x").kernel_log
