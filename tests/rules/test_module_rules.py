"""Each rule about loading a module: a bad node, a near miss, and a node without the evidence."""

from __future__ import annotations

from typing import Any

import pytest

from gdrkit.evidence import EvidenceMissing
from gdrkit.node import Node
from gdrkit.report.pages import HEADINGS
from gdrkit.rules.dependency_failed import dependency_failed
from gdrkit.rules.init_failed import init_failed
from gdrkit.rules.load_order import OF_ANY_MODULE
from gdrkit.rules.mixed_signers import mixed_signers
from gdrkit.rules.module_admission import module_blacklisted, modules_are_disabled
from gdrkit.rules.module_build import module_corrupt, module_wrong_kernel
from gdrkit.rules.module_configuration import install_override, module_bad_parameter, module_unsupported
from gdrkit.rules.module_not_found import module_not_found
from gdrkit.rules.module_signature import (
    lockdown_blocks_module,
    module_key_revoked,
    module_signature_broken,
    module_unknown_key,
    module_unsigned,
)
from gdrkit.rules.module_subjects import file_name, node_with_gpu, peermem, peermem_module
from gdrkit.rules.module_symbols import (
    module_crc_mismatch,
    module_symbol_duplicate,
    module_symbol_gpl_only,
    module_symbol_missing,
    module_symbol_namespace,
)
from gdrkit.rules.rule import Failed, NotApplicable, Outcome, Passed, Rule, Unknown
from tests.facts.test_trust import MOK, OTHER, PLAIN, altered, efi_list, secured
from tests.kernel_tree import RELEASE, KernelTree
from tests.memory_host import MemoryHost
from tests.module_builder import VERMAGIC, build_module, sign
from tests.rules.machines import outcome


@pytest.mark.parametrize("line", ["install x /bin/false", "blacklist x"])
def test_what_to_do_about_a_line_of_modprobe_names_the_line(line):
    tree = KernelTree().module("x").put("etc/modprobe.d/a.conf", f"# of a guide\n\n{line}\n")
    found = ask(install_override if line.startswith("install") else module_blacklisted, tree)

    assert isinstance(found, Failed) and found.advice == "Remove line 3 of /etc/modprobe.d/a.conf."


def ask(rule: Rule, tree: KernelTree, module: str = "x") -> Outcome:
    return outcome(tree.node(), rule, module)


def unseen(**shape: Any) -> KernelTree:
    """A node of which only the module's path is known."""
    tree = KernelTree(complete=False).module("x", **shape)
    return tree.without(tree.path("x"), tree.path("reference"), "proc/keys")


def locked(level: str = "integrity") -> KernelTree:
    text = "none integrity confidentiality\n".replace(level, f"[{level}]")
    return KernelTree().put("sys/kernel/security/lockdown", text)


def provider() -> KernelTree:
    return KernelTree().module("provider", exports={"hello": 7})


def peermem_with(argument: str) -> KernelTree:
    """nvidia-peermem of driver 550, with an options line."""
    parameters, version = {"peerdirect_support": "int"}, {"version": "550.54.15"}
    tree = KernelTree().module("x", parameters=parameters, modinfo=version)
    return tree.put("etc/modprobe.d/a.conf", f"options x {argument}\n")


IN_THE_DRIVER_CONTAINER = f"run/nvidia/driver/lib/modules/{RELEASE}/kernel/drivers/video/nvidia-peermem.ko"

BAD: list[tuple[Rule, KernelTree]] = [
    (module_not_found, KernelTree()),
    (install_override, KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/false\n")),
    (install_override, KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /bin/true\n")),
    (modules_are_disabled, KernelTree().module("x").put("proc/sys/kernel/modules_disabled", "1\n")),
    (module_signature_broken, secured().module("x", content=altered(sign(PLAIN, MOK)))),
    (
        module_key_revoked,
        secured()
        .module("x", content=sign(PLAIN, MOK))
        .put(
            "sys/firmware/efi/efivars/MokListXRT-605dab50-e046-4300-abb6-3dd810dd8b23",
            efi_list(MOK.certificate_der),
        )
        .put("boot/config-6.1.0-56-amd64", "#\nCONFIG_SYSTEM_REVOCATION_LIST=y\nCONFIG_MODULE_SIG=y\n"),
    ),
    (module_unsigned, secured().module("x")),
    (module_unknown_key, secured().module("x", content=sign(PLAIN, OTHER))),
    (lockdown_blocks_module, locked().module("x")),
    (lockdown_blocks_module, locked("confidentiality").module("x", content=sign(PLAIN, OTHER))),
    (module_corrupt, KernelTree().module("x", content=PLAIN[:300])),
    (module_blacklisted, KernelTree().module("x").put("proc/cmdline", "module_blacklist=y,x\n")),
    (module_blacklisted, KernelTree().module("x").put("etc/modprobe.d/a.conf", "blacklist x\n")),
    (module_wrong_kernel, KernelTree().module("x", vermagic=VERMAGIC["x86_64"].replace("SMP", "UP"))),
    (module_wrong_kernel, KernelTree().module("x", module_layout=1)),
    (module_symbol_missing, KernelTree().module("x", imports={"nowhere": 1})),
    (
        module_symbol_gpl_only,
        KernelTree().module("x", imports={"class_create": 0x11111111}, license="NVIDIA"),
    ),
    (module_crc_mismatch, provider().module("x", imports={"hello": 8}, depends=("provider",))),
    (module_symbol_namespace, KernelTree().module("x", imports={"dma_buf_get": 0x22222222})),
    (
        module_symbol_duplicate,
        KernelTree().module("x", exports={"hello": 7}).module("other", exports={"hello": 7}, loaded="O"),
    ),
    (
        module_bad_parameter,
        KernelTree().module("x", parameters={"n": "int"}).put("etc/modprobe.d/a.conf", "options x n=one\n"),
    ),
    (module_bad_parameter, peermem_with("peerdirect_support=2")),
    (
        dependency_failed,
        secured()
        .module("provider", exports={"hello": 7})
        .module("x", content=sign(build_module("x", imports={"hello": 7}), MOK), depends=("provider",)),
    ),
]
NEAR: list[tuple[Rule, KernelTree]] = [
    (module_not_found, KernelTree().module("x")),
    (module_not_found, KernelTree().put(".dockerenv", "")),
    (module_not_found, KernelTree().put(IN_THE_DRIVER_CONTAINER, PLAIN)),
    (module_not_found, KernelTree().put("etc/modprobe.d/a.conf", "install x modprobe y\n")),
    (install_override, KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x modprobe -i x\n")),
    (
        install_override,
        KernelTree()
        .module("x")
        .module("y")
        .put("etc/modprobe.d/a.conf", "install x /bin/false\nsoftdep x pre: y\n"),
    ),
    (modules_are_disabled, KernelTree().module("x")),
    (module_signature_broken, secured().module("x", content=sign(PLAIN, MOK))),
    (module_signature_broken, secured().module("x", content=altered(sign(PLAIN, OTHER)))),
    (module_key_revoked, secured().module("x", content=sign(PLAIN, MOK))),
    (module_unsigned, secured().module("x", content=sign(PLAIN, MOK))),
    (module_unsigned, KernelTree().module("x")),
    (module_unsigned, secured().module("x", content=b"")),
    (module_unknown_key, secured().module("x", content=sign(PLAIN, MOK))),
    (lockdown_blocks_module, KernelTree().module("x")),
    (lockdown_blocks_module, secured().module("x")),
    (lockdown_blocks_module, locked().module("x", content=b"")),
    (module_corrupt, KernelTree().module("x")),
    (module_wrong_kernel, KernelTree().module("x", content=build_module("x", machine="aarch64"))),
    (module_blacklisted, KernelTree().module("x").put("proc/cmdline", "module_blacklist=xy\n")),
    (module_blacklisted, KernelTree().module("x").put("etc/modprobe.d/a.conf", "# blacklist x\n")),
    (module_wrong_kernel, KernelTree().module("x", vermagic=VERMAGIC["x86_64"].replace("-56-", "-9-"))),
    (module_symbol_missing, KernelTree().module("x", weak_imports={"nowhere": 1})),
    (module_symbol_gpl_only, KernelTree().module("x", imports={"class_create": 0x11111111})),
    (module_crc_mismatch, provider().module("x", imports={"hello": 7}, depends=("provider",))),
    (
        module_symbol_namespace,
        KernelTree().module("x", imports={"dma_buf_get": 0x22222222}, modinfo={"import_ns": "DMA_BUF"}),
    ),
    (
        module_symbol_duplicate,
        KernelTree().module("x", exports={"hello": 7}).module("other", exports={"bye": 7}, loaded="O"),
    ),
    (
        module_bad_parameter,
        KernelTree().module("x", parameters={"n": "int"}).put("etc/modprobe.d/a.conf", "options x m=one\n"),
    ),
    (module_bad_parameter, peermem_with("peerdirect_support=1")),
    (module_bad_parameter, peermem_with("persistent_api_support=2")),
    (dependency_failed, provider().module("x", imports={"hello": 7}, depends=("provider",))),
]
MISSING: list[tuple[Rule, KernelTree]] = [
    (module_not_found, KernelTree(complete=False).without("proc/sys/kernel/osrelease")),
    (install_override, KernelTree(complete=False).module("x")),
    (
        install_override,
        KernelTree().module("x").put("etc/modprobe.d/a.conf", "install x /usr/local/bin/decide\n"),
    ),
    (
        modules_are_disabled,
        KernelTree(complete=False).module("x").without("proc/sys/kernel/modules_disabled"),
    ),
    *((rule, unseen()) for rule in (module_signature_broken, module_corrupt, module_wrong_kernel)),
    *((rule, unseen()) for rule in (module_symbol_missing, module_crc_mismatch, module_symbol_namespace)),
    *((rule, unseen()) for rule in (module_symbol_gpl_only, module_symbol_duplicate, module_bad_parameter)),
    (module_key_revoked, unseen()),
    (module_unsigned, unseen().put("sys/module/module/parameters/sig_enforce", "Y\n")),
    (module_unknown_key, unseen().put("sys/module/module/parameters/sig_enforce", "Y\n")),
    (
        lockdown_blocks_module,
        unseen().put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
    ),
    (module_blacklisted, KernelTree(complete=False).module("x").without("proc/cmdline")),
    (
        dependency_failed,
        unseen(depends=("gone",)).module("gone").without("lib/modules/6.1.0-56-amd64/updates/dkms/gone.ko"),
    ),
]


def named(cases: list[tuple[Rule, KernelTree]]) -> list[Any]:
    return [pytest.param(rule, tree, id=rule.code) for rule, tree in cases]


@pytest.mark.parametrize(("rule", "tree"), named(BAD))
def test_the_problem_is_found(rule: Rule, tree: KernelTree) -> None:
    outcome = ask(rule, tree)
    assert isinstance(outcome, Failed), outcome
    assert outcome.subject == "x"
    assert outcome.seen and outcome.expected


@pytest.mark.parametrize(("rule", "tree"), named(NEAR))
def test_a_near_miss_is_not_a_finding(rule: Rule, tree: KernelTree) -> None:
    outcome = ask(rule, tree)
    assert isinstance(outcome, Passed | NotApplicable), outcome


@pytest.mark.parametrize(("rule", "tree"), named(MISSING))
def test_a_node_without_the_evidence_is_unknown(rule: Rule, tree: KernelTree) -> None:
    outcome = ask(rule, tree)
    assert isinstance(outcome, Unknown), outcome


@pytest.mark.parametrize("rule", OF_ANY_MODULE, ids=lambda rule: rule.code)
def test_no_rule_applies_to_a_loaded_module(rule: Rule) -> None:
    tree = KernelTree().module("x", content=b"", loaded="OE")
    assert isinstance(ask(rule, tree), NotApplicable)


def test_modprobes_blacklist_does_not_stop_loading_by_name() -> None:
    outcome = ask(module_blacklisted, KernelTree().module("x").put("etc/modprobe.d/a.conf", "blacklist x\n"))
    assert isinstance(outcome, Failed) and outcome.takes == ()
    assert "line 1" in outcome.seen


def test_a_dependency_on_modprobes_blacklist_can_be_loaded() -> None:
    tree = provider().module("x", imports={"hello": 7}, depends=("provider",))
    tree.put("etc/modprobe.d/a.conf", "blacklist provider\n")
    assert isinstance(ask(dependency_failed, tree), Passed)


def test_an_init_that_is_not_known_passes() -> None:
    outcome = ask(init_failed, KernelTree().module("x"))
    assert isinstance(outcome, Passed) and outcome.lacking


def test_the_kernel_log_decides_if_the_file_was_not_collected() -> None:
    tree = unseen()
    line = "[   10.0] x: version magic '5.4.0 SMP mod_unload ' should be '6.1.0-56-amd64 SMP mod_unload '\n"
    tree.commands[("dmesg",)] = line
    assert isinstance(ask(module_wrong_kernel, tree), Failed)


def a_driver(driver: bytes, peermem: bytes) -> Node:
    tree = KernelTree().module("nvidia", content=driver)
    return tree.module("nvidia_peermem", content=peermem, file="nvidia-peermem.ko").node()


def test_two_signers_in_one_folder_fail_even_if_signatures_are_not_enforced() -> None:
    driver, peermem = build_module("nvidia"), build_module("nvidia_peermem")
    found = outcome(a_driver(sign(driver, MOK), sign(peermem, OTHER)), mixed_signers, "node")
    assert isinstance(found, Failed)
    assert found.seen == f"nvidia-peermem.ko signed by {OTHER.name}, nvidia.ko signed by {MOK.name}"
    assert isinstance(
        outcome(a_driver(sign(driver, MOK), sign(peermem, MOK)), mixed_signers, "node"), Passed
    )
    assert isinstance(outcome(a_driver(driver, peermem), mixed_signers, "node"), Passed)


def test_an_empty_file_has_no_signer_to_compare() -> None:
    driver = a_driver(sign(build_module("nvidia"), MOK), b"")
    assert isinstance(outcome(driver, mixed_signers, "node"), NotApplicable)


def test_signers_of_missing_modules_are_not_compared() -> None:
    assert isinstance(outcome(KernelTree().node(), mixed_signers, "node"), NotApplicable)
    assert isinstance(
        outcome(
            KernelTree(complete=False).without("proc/sys/kernel/osrelease").node(), mixed_signers, "node"
        ),
        Unknown,
    )


def test_a_renamed_peermem_is_judged_by_its_file_name() -> None:
    tree = KernelTree().module("nvidia_current_peermem", file="nvidia-current-peermem.ko")
    assert file_name(tree.node()) == "nvidia_current_peermem"
    assert file_name(KernelTree().node()) == "nvidia_peermem"


GPU = {"sys/bus/pci/devices/0000:1b:00.0/uevent": b"PCI_CLASS=30200\nPCI_ID=10DE:2330\n"}
NIC = {"sys/bus/pci/devices/0000:18:00.0/uevent": b"PCI_CLASS=20700\nPCI_ID=15B3:1021\n"}


@pytest.mark.parametrize("per", [peermem, peermem_module, node_with_gpu])
def test_no_rule_asks_for_peermem_on_a_machine_known_to_have_no_gpu(per) -> None:
    assert list(per(Node(MemoryHost(NIC, complete=True)))) == []
    assert list(per(Node(MemoryHost(NIC | GPU, complete=True))))
    loaded_one = {"proc/modules": "nvidia 16384 0 - Live 0x0000000000000000\n"}
    assert list(per(Node(MemoryHost(loaded_one)))), "it is loaded only where it found a GPU"
    with pytest.raises(EvidenceMissing):
        list(per(Node(MemoryHost())))


def test_every_rule_of_loading_has_a_page() -> None:
    for rule in (*OF_ANY_MODULE, dependency_failed, init_failed, mixed_signers):
        for heading in HEADINGS[1:]:
            assert f"\n    {heading}: " in rule.page, rule.code


ABOUT_THE_FILE = (module_signature_broken, module_corrupt, module_wrong_kernel, module_crc_mismatch)


@pytest.mark.parametrize("rule", ABOUT_THE_FILE, ids=lambda rule: rule.code)
def test_a_module_without_a_file_has_no_questions_about_its_file(rule):
    """The one finding is module-not-found: nothing that could be collected would answer more."""
    assert isinstance(ask(module_not_found, KernelTree()), Failed)
    assert isinstance(ask(rule, KernelTree()), NotApplicable)


@pytest.mark.parametrize("rule", ABOUT_THE_FILE, ids=lambda rule: rule.code)
@pytest.mark.parametrize("tree", [KernelTree().put(".dockerenv", ""), unseen()], ids=["container", "unseen"])
def test_they_stay_unknown_where_the_file_may_exist(rule, tree):
    assert isinstance(ask(rule, tree), Unknown)


SUPPORT = "lib/modprobe.d/10-unsupported-modules.conf"


def suse(setting: str = "allow_unsupported_modules 0\n", **modinfo: str) -> KernelTree:
    """A machine with SLES, whose modprobe refuses modules that are not marked."""
    tree = KernelTree().module("x", modinfo=modinfo).put(SUPPORT, setting)
    return tree.put("etc/os-release", 'ID="sles"\nID_LIKE="suse"\nVERSION_ID="15.6"\n')


def test_suse_refuses_a_module_without_the_mark_of_support():
    found = ask(module_unsupported, suse())
    assert isinstance(found, Failed)
    assert (found.subject, SUPPORT in found.seen) == ("x", True)
    assert isinstance(ask(module_unsupported, suse(supported="no")), Failed)


@pytest.mark.parametrize(
    "tree",
    [
        suse(supported="external"),
        suse(supported="yes"),
        suse("allow_unsupported_modules 0\nallow_unsupported_modules 1\n"),
        suse("# allow_unsupported_modules 0\n"),
        suse().put(f"etc/{SUPPORT.removeprefix('lib/')}", "allow_unsupported_modules 1\n"),
        suse().put("etc/os-release", "ID=debian\n"),
    ],
    ids=["external", "yes", "last line", "comment", "file in /etc", "not SUSE"],
)
def test_a_mark_another_setting_or_another_modprobe_is_no_refusal(tree):
    assert isinstance(ask(module_unsupported, tree), Passed)


def test_support_of_a_module_that_was_not_collected_is_unknown():
    tree = KernelTree(complete=False).module("x").put(SUPPORT, "allow_unsupported_modules 0\n")
    tree.put("etc/os-release", 'ID="sles"\nID_LIKE="suse"\n')
    assert isinstance(ask(module_unsupported, tree.without(tree.path("x"))), Unknown)
