"""Predictions for nvidia-peermem: stubs, parameters, providers, refused registrations."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, Missing, MissingReason
from gdrkit.evidence.target import open_host
from gdrkit.facts.linkage import Links, symbol_links
from gdrkit.facts.modules import module_path
from gdrkit.facts.peer_memory import PeermemLinkage, peermem_linkage
from gdrkit.facts.trust import SignatureCheck, SignatureState, signature_check
from gdrkit.loader import refusals
from gdrkit.node import Node
from tests.evidence_nodes import laid_down
from tests.facts.test_trust import MOK, secured
from tests.hiding_host import HidingHost
from tests.kernel_tree import FOLDER, KERNEL_SYMBOLS, KernelTree, symvers
from tests.known_answers import modprobe
from tests.loader.shared import TAINTED, could_not, full, stub
from tests.memory_host import MemoryHost
from tests.module_builder import Export, build_module

TAKEN = (
    "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/nv_mem'",
    "kobject_add_internal failed for nv_mem with -EEXIST, don't try to register things with the same name "
    "in the same directory.",
    "kobject_create_and_add: kobject_add error: -17",
)


def test_the_stub_returns_invalid_argument_without_a_message() -> None:
    tree = KernelTree().module("nvidia_peermem", content=stub("nvidia_peermem"), file="nvidia-peermem.ko")
    found = modprobe(tree.put("proc/sys/kernel/tainted", TAINTED).node(), "nvidia-peermem")
    assert found.stderr == could_not("Invalid argument", "nvidia_peermem")
    assert (found.kernel_log, found.reason, found.result_unknown) == ((), "peermem-stub", False)
    assert found.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("spark-two-cables", True),  # its file is a stub: EINVAL
        ("ofed-not-running", True),  # its file imports the API: ENOENT
        ("mixed-signers", False),  # the running ib_core exports the API
    ],
)
def test_a_file_that_was_not_collected_is_refused_where_nothing_exports_the_api(
    name: str, refused: bool
) -> None:
    """Only the file shows which error it is; that there is one, it cannot change."""
    whole = Node(open_host(str(laid_down(name))))
    hidden = HidingHost(whole.host, {module_path(whole, "nvidia_peermem")})
    found = modprobe(Node(hidden), "nvidia_peermem")
    assert modprobe(whole, "nvidia_peermem").loaded is False
    assert (found.loaded, found.result_unknown) == (not refused, not refused)
    assert found.reason == ("rdma-lacks-peer-api" if refused else "")
    assert (found.stderr, found.confidence) == ((), Confidence.LIKELY)


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
    assert found.kernel_log[-3:] == TAKEN


def test_kobject_names_itself_in_newer_kernels() -> None:
    """As in guests of the lab with 6.1 and 7.3."""
    said = refusals.on_taken_name(Node(MemoryHost({"proc/sys/kernel/osrelease": "7.3.4-amd64\n"})))
    assert said == [TAKEN[0], *(f"kobject: {line}" for line in TAKEN[1:])]


@pytest.mark.parametrize("folder", [True, False])
def test_a_name_is_free_again_where_nobody_has_it_now(folder: bool) -> None:
    tree = full(KernelTree()).module("nv_peer_mem")
    place = "nvidia-peermem nv_mem_nc_client_init:603 ERROR nv_mem_client_init"
    lines = ["Linux version", *TAKEN, f"{place} -- error while registering nc client"]
    tree.commands[("dmesg",)] = "".join(f"[    0.{n}] {line}\n" for n, line in enumerate(lines))
    if folder:
        tree.put("sys/kernel/mm/memory_peers/other/version", "1\n")
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.unless, found.undecided) == (True, (), False)
    taken = tree.put("sys/kernel/mm/memory_peers/nv_mem/version", "1\n")
    assert modprobe(taken.node(), "nvidia_peermem").unless == ("peermem-registration-refused",)


def test_an_old_refusal_whose_cause_may_be_gone_leaves_the_result_open() -> None:
    tree = full(KernelTree()).module("nv_peer_mem")
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    tree.commands[("dmesg",)] = f"[    0.0] Linux version\n[   10.0] {line}\n"
    found = modprobe(tree.node(), "nvidia_peermem")
    assert (found.loaded, found.undecided) == (True, True)
    assert found.unless == ("peermem-registration-refused",)


def test_an_old_refusal_alone_does_not_decide_and_a_new_rdma_core_has_no_clients() -> None:
    line = "nvidia-peermem nv_mem_client_init:482 nv_mem_client_init -- error while registering nc client"
    open_ = ("peermem-registration-refused",)
    for new, unless in (((), open_), (("nvidia",), open_), (("nvidia", "ib_core"), ())):
        tree = full(KernelTree())
        for name in new:
            del tree.loaded[name]
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
