"""Findings about nvidia-peermem: stubs, loading, and modules that interfere with it."""

from __future__ import annotations

import pytest

from gdrkit.evidence import Confidence, MissingReason
from gdrkit.rules.engine import judge
from gdrkit.rules.legacy_nv_peer_mem import legacy_nv_peer_mem
from gdrkit.rules.lock_inversion import lock_inversion
from gdrkit.rules.p2p_page_table_version import p2p_page_table_version
from gdrkit.rules.peermem_blocks_ofed import peermem_blocks_ofed
from gdrkit.rules.peermem_not_loaded import peermem_not_loaded
from gdrkit.rules.peermem_not_persistent import peermem_not_persistent
from gdrkit.rules.peermem_redundant import peermem_redundant
from gdrkit.rules.peermem_registration_refused import peermem_registration_refused
from gdrkit.rules.peermem_stub import peermem_stub
from gdrkit.rules.rule import Failed, Passed, Unknown
from gdrkit.verdict.cells import paths_closed_by
from tests.evidence_builder.library import DMABUF as DMABUF_CALL
from tests.evidence_builder.library import VERBS, shared_object
from tests.module_builder import build_module
from tests.rules.machines import (
    API,
    DMABUF,
    FULL,
    MODULES,
    STUB,
    does_not_apply,
    driver,
    failed,
    installed,
    kernel_log,
    loaded,
    missing,
    node,
    outcome,
    passes,
    peermem,
)

NAME = "nvidia_peermem"
SYMVERS = "".join(f"0x1\t{symbol}\tdrivers/ib_core\tEXPORT_SYMBOL\t\n" for symbol in API)


# -- peermem-stub ------------------------------------------------------------------------------------------


def test_a_module_without_the_import_is_a_stub_and_blocks_peermem():
    found = failed(node(peermem(STUB)), peermem_stub, NAME)

    assert found.subject == "nvidia-peermem.ko"
    assert "no import of ib_register_peer_memory_client" in found.seen
    assert paths_closed_by(peermem_stub.takes(NAME)) == ("peermem",)


def test_an_empty_depends_does_not_make_a_stub():
    """Some build systems leave `depends:` empty in a module that does import the API."""
    odd = build_module("nvidia_peermem", imports=API, parameters={"persistent_api_support": "int"})

    assert passes(node(peermem(odd)), peermem_stub, NAME)


def test_an_empty_depends_of_another_module_does_not_make_a_stub():
    assert does_not_apply(node(peermem(STUB)), peermem_stub, "nvidia")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "a rebuild would not find the API either"),
        (
            {"usr/src/ofa_kernel/default/Module.symvers": SYMVERS},
            "a rebuild would find it in usr/src/ofa_kernel/default/Module.symvers",
        ),
    ],
)
def test_the_finding_says_what_a_rebuild_would_find(files: dict[str, str], words: str):
    assert failed(node(peermem(STUB), files), peermem_stub, NAME).seen.endswith(words)


def test_on_arm_the_finding_names_the_tree_that_the_build_overlooks():
    tree = "usr/src/ofa_kernel/aarch64/6.1.0-56-amd64/Module.symvers"
    machine = node(peermem(STUB), {"proc/sys/kernel/arch": "aarch64", tree: SYMVERS})

    assert f"does not look at {tree}" in failed(machine, peermem_stub, NAME).seen


def test_a_stub_on_disk_beside_a_loaded_full_module_blocks_nothing_now():
    assert failed(node(peermem(STUB), loaded(NAME)), peermem_stub, NAME).takes == ()


def test_a_full_module_passes_and_a_missing_one_does_not_apply():
    assert passes(node(peermem(FULL)), peermem_stub, NAME)
    assert does_not_apply(node(installed({})), peermem_stub, NAME)


def test_an_unreadable_file_is_unknown_unless_it_is_loaded():
    damaged = {f"{MODULES}/updates/nvidia-peermem.ko": b"\x7fELF and nothing more"}

    assert missing(node(peermem(), damaged), peermem_stub, NAME).why is MissingReason.GARBLED
    assert passes(node(peermem(), damaged, loaded(NAME)), peermem_stub, NAME)


# -- peermem-not-loaded ------------------------------------------------------------------------------------


def test_an_installed_module_that_is_not_loaded_is_found():
    assert failed(node(peermem()), peermem_not_loaded, NAME).subject == "nvidia-peermem.ko"
    assert paths_closed_by(peermem_not_loaded.takes(NAME)) == ("peermem",)


def test_a_driver_before_470_has_no_nvidia_peermem_and_needs_its_predecessor():
    old, first = (node(driver(version), loaded("nvidia")) for version in ("418.152.00", "470.42.01"))
    found = failed(old, peermem_not_loaded, "nvidia_peermem")
    assert (found.subject, "older than nvidia-peermem" in found.seen) == ("nv_peer_mem", True)
    assert found.advice.startswith("Install a driver from 470 on")
    assert does_not_apply(first, peermem_not_loaded, "nvidia_peermem")


def test_a_loaded_module_passes_and_a_loaded_predecessor_does_not_apply():
    assert passes(node(peermem(), loaded(NAME)), peermem_not_loaded, NAME)
    assert does_not_apply(node(peermem(), loaded("nv_peer_mem")), peermem_not_loaded, NAME)


def test_a_predecessor_stands_in_with_any_driver_but_was_not_tried_from_580_on():
    """nv_peer_mem does not compare the version of page tables, which 580.65.06 raised."""
    versions = ("570.158.01", "580.65.06")
    machines = [node(peermem(), driver(version), loaded("nv_peer_mem")) for version in versions]

    assert all(does_not_apply(machine, peermem_not_loaded, NAME) for machine in machines)
    assert [machine.trail(judge, peermem_not_loaded, NAME).confidence for machine in machines] == [
        Confidence.CERTAIN,
        Confidence.LIKELY,
    ]


def test_a_stub_and_a_missing_file_have_other_findings():
    assert does_not_apply(node(peermem(STUB)), peermem_not_loaded, NAME)
    assert does_not_apply(node(installed({})), peermem_not_loaded, NAME)


def test_a_module_without_a_collected_file_may_be_a_stub_and_is_unknown():
    assert missing(node(complete=False), peermem_not_loaded, NAME)


def test_without_a_list_of_loaded_modules_it_is_unknown():
    assert missing(node(peermem(), complete=False, without="proc/modules"), peermem_not_loaded, NAME)


# -- peermem-registration-refused --------------------------------------------------------------------------

REFUSED = (
    "nvidia-peermem nv_mem_client_init:445 ERROR nv_mem_client_init -- error while registering "
    "traditional client"
)


@pytest.mark.parametrize(
    "line",
    [
        REFUSED,
        "nvidia-peermem nv_mem_nc_client_init:603 ERROR nv_mem_client_init -- error while registering "
        "nc client",
        "nvidia-peermem nv_mem_client_init:577 error while registering nc client",
    ],
)
def test_the_refusal_is_found_in_the_wording_of_every_driver(line: str):
    assert failed(node(peermem(), log=kernel_log(line)), peermem_registration_refused, NAME).seen == line


PEERS = {f"sys/kernel/mm/memory_peers/nv_mem/{name}": "1\n" for name in ("version", "num_alloc_mrs")}


def test_the_predecessor_refuses_it_where_the_core_compares_names():
    """peer_mem.c of MLNX_OFED: create_peer_sysfs() fails for a second folder of a name; others have none."""
    both = (peermem(), loaded("nv_peer_mem"))
    found = failed(node(*both, PEERS, log=kernel_log()), peermem_registration_refused, NAME)

    assert found.seen == "nv_peer_mem is loaded and is registered as nv_mem"
    assert passes(node(*both, log=kernel_log()), peermem_registration_refused, NAME)
    unseen = node(*both, complete=False, absent={"sys/module/nvidia_peermem/initstate"})
    assert failed(unseen, peermem_registration_refused, NAME)
    assert unseen.confidence(judge, peermem_registration_refused, NAME) is Confidence.LIKELY


TAKEN = "sysfs: cannot create duplicate filename '/kernel/mm/memory_peers/nv_mem'"
NO_CLIENT = {"sys/kernel/mm/memory_peers/nv_mem_nc/version": "1\n"}


def test_a_refusal_for_a_name_that_is_free_again_decides_nothing():
    """Near misses: another refusal since, the client or the predecessor still there."""
    log = kernel_log(TAKEN, REFUSED)
    assert passes(node(peermem(), NO_CLIENT, log=log), peermem_registration_refused, NAME)
    again = kernel_log(TAKEN, REFUSED, REFUSED)
    assert failed(node(peermem(), NO_CLIENT, log=again), peermem_registration_refused, NAME)
    assert failed(node(peermem(), NO_CLIENT, log=kernel_log(REFUSED)), peermem_registration_refused, NAME)
    assert failed(node(peermem(), PEERS, log=log), peermem_registration_refused, NAME)
    assert passes(node(peermem(), log=log), peermem_registration_refused, NAME), "no RDMA stack runs"
    both = node(peermem(), PEERS, loaded("nv_peer_mem"), log=log)
    assert failed(both, peermem_registration_refused, NAME)
    compares_none = node(peermem(), NO_CLIENT, loaded("nv_peer_mem"), log=log)
    assert passes(compares_none, peermem_registration_refused, NAME)
    unseen = node(peermem(), loaded("nv_peer_mem"), log=log, complete=False)
    assert failed(unseen, peermem_registration_refused, NAME)


def test_a_refusal_alone_is_likely():
    machine = node(peermem(), log=kernel_log(REFUSED))

    assert failed(machine, peermem_registration_refused, NAME)
    assert machine.confidence(judge, peermem_registration_refused, NAME) is Confidence.LIKELY


def test_a_refusal_decides_nothing_once_the_predecessor_was_unloaded():
    beside = installed({"extra/nv_peer_mem.ko": build_module("nv_peer_mem")})
    found = missing(node(beside, log=kernel_log(REFUSED)), peermem_registration_refused, NAME)

    assert "nv_peer_mem is installed, and not loaded now" in found.source


@pytest.mark.parametrize(
    ("version", "line", "decides"),
    [
        ("550.54.15", REFUSED, True),
        ("580.65.06", REFUSED, False),
        ("550.54.15", REFUSED.replace("nv_mem_client_init:", "nv_mem_nc_client_init:"), False),
        ("580.65.06", REFUSED.replace("nv_mem_client_init:", "nv_mem_nc_client_init:"), True),
    ],
)
def test_a_refusal_decides_nothing_once_the_module_was_replaced(version: str, line: str, decides: bool):
    """The line names the function that printed it, which has another name since 560.28.03."""
    module = build_module("nvidia_peermem", imports={**API}, modinfo={"version": version})
    found = outcome(node(peermem(module), log=kernel_log(line)), peermem_registration_refused, NAME)

    assert isinstance(found, Failed if decides else Unknown)


def test_a_log_without_it_passes_and_a_truncated_one_names_what_is_missing():
    assert passes(node(peermem(), log=kernel_log("eth0: link up")), peermem_registration_refused, NAME)
    cut = outcome(node(peermem(), log=kernel_log(from_boot=False)), peermem_registration_refused, NAME)

    assert isinstance(cut, Passed)
    assert cut.lacking[0].why is MissingReason.TRUNCATED


def test_it_does_not_apply_to_other_modules():
    assert does_not_apply(node(), peermem_registration_refused, "mlx5_ib")
    assert does_not_apply(node(), peermem_not_loaded, "mlx5_ib")


def test_a_refusal_before_a_successful_load_passes():
    assert passes(node(loaded(NAME), log=kernel_log(REFUSED)), peermem_registration_refused, NAME)


# -- legacy-nv-peer-mem ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["535.54.03", "570.158.01", "580.65.06"])
def test_the_predecessor_closes_no_path_with_any_driver(version: str):
    found = failed(node(loaded("nv_peer_mem"), driver(version)), legacy_nv_peer_mem)

    assert found.seen == f"nv_peer_mem is loaded, driver {version}"
    assert paths_closed_by(legacy_nv_peer_mem.takes("node")) == ()


def test_the_predecessor_is_found_without_the_drivers_version():
    found = failed(node(loaded("nv_peer_mem"), complete=False), legacy_nv_peer_mem)

    assert found.seen == "nv_peer_mem is loaded"


def test_the_file_of_the_predecessor_alone_is_reported_too():
    files = installed({"extra/nv_peer_mem.ko": build_module("nv_peer_mem")})

    assert "installed, not loaded" in failed(node(files), legacy_nv_peer_mem).seen


def test_nvidia_peermem_is_not_its_predecessor():
    assert does_not_apply(node(peermem(), loaded(NAME)), legacy_nv_peer_mem)
    assert missing(node(complete=False, without="proc/modules"), legacy_nv_peer_mem)


# -- peermem-not-persistent --------------------------------------------------------------------------------


def test_a_module_loaded_by_hand_is_not_persistent():
    assert failed(node(peermem(), loaded(NAME)), peermem_not_persistent, NAME)
    assert paths_closed_by(peermem_not_persistent.takes(NAME)) == ()


@pytest.mark.parametrize(
    "files",
    [
        {"etc/modules-load.d/gpu.conf": "# GPU\nib_umad\nnvidia-peermem\n"},
        {"etc/modules": "nvidia_peermem\n"},
        {"etc/modprobe.d/nvidia.conf": "softdep nvidia post: nvidia-peermem\n"},
        {"usr/lib/systemd/system/nvidia-peermem-loader.service": "[Service]\n"},
    ],
)
def test_each_of_four_ways_makes_it_persistent(files: dict[str, str]):
    assert passes(node(peermem(), loaded(NAME), files), peermem_not_persistent, NAME)


@pytest.mark.parametrize(
    "files",
    [
        {"etc/modules-load.d/gpu.conf": "ib_umad\n"},
        {"etc/modprobe.d/nvidia.conf": "softdep nvidia post: ib_umad\n"},
        {"etc/modprobe.d/nvidia.conf": "softdep ib_core post: nvidia-peermem\n"},
        {"usr/lib/systemd/system/nvidia-peermem.target": "", "usr/lib/systemd/system/other.service": ""},
    ],
)
def test_what_loads_another_module_does_not(files: dict[str, str]):
    found = failed(node(peermem(), loaded(NAME), files), peermem_not_persistent, NAME)

    assert found.seen == "nothing loads it at boot"


def test_a_blacklist_entry_overrides_the_line():
    files = {
        "etc/modules-load.d/gpu.conf": "nvidia-peermem\n",
        "etc/modprobe.d/no.conf": "blacklist nvidia-peermem\n",
    }
    found = failed(node(peermem(), loaded(NAME), files), peermem_not_persistent, NAME)

    assert "etc/modprobe.d/no.conf:1 blacklists" in found.seen


def test_it_does_not_apply_if_an_operator_loads_the_module():
    path = "run/nvidia/driver/lib/modules/6.1.0-56-amd64/kernel/drivers/video/nvidia-peermem.ko"

    assert does_not_apply(node(installed({}), loaded(NAME), {path: FULL}), peermem_not_persistent, NAME)


@pytest.mark.parametrize(
    ("files", "outcome_class"),
    [
        ({}, Unknown),
        ({"var/lib/dkms/nvidia-fs/2.24.2/source/dkms.conf": ""}, Unknown),
        ({"var/lib/dkms/nvidia/580.95.05/source/dkms.conf": ""}, Failed),
    ],
)
def test_what_loads_a_module_that_this_disk_lacks_is_not_known(files, outcome_class):
    """A container may have brought it. A driver in DKMS, for whichever kernel, is this host's own."""
    machine = node(installed({}), loaded(NAME), files)

    assert isinstance(outcome(machine, peermem_not_persistent, NAME), outcome_class)


def test_it_does_not_apply_if_not_loaded_and_is_unknown_without_evidence():
    assert does_not_apply(node(peermem()), peermem_not_persistent, NAME)
    assert missing(node(peermem(), loaded(NAME), complete=False), peermem_not_persistent, NAME)


# -- peermem-redundant -------------------------------------------------------------------------------------

ASKED = {"etc/modules-load.d/gpu.conf": "nvidia-peermem\n"}
LIB = "usr/lib/x86_64-linux-gnu"
NEW_VERBS = {f"{LIB}/libibverbs.so.1": shared_object("libibverbs.so.1", (*VERBS, DMABUF_CALL))}
OLD_VERBS = {f"{LIB}/libibverbs.so.1": shared_object("libibverbs.so.1", VERBS)}


def test_a_stub_in_modules_load_d_is_found():
    found = failed(node(peermem(STUB), ASKED), peermem_redundant, NAME)
    assert found.seen == "etc/modules-load.d/gpu.conf:1 names a module that is a stub"
    later = {"etc/modules-load.d/gpu.conf": "ib_umad\nnvidia-peermem\n"}
    found = failed(node(peermem(STUB), later), peermem_redundant, NAME)
    assert found.seen == "etc/modules-load.d/gpu.conf:2 names a module that is a stub"
    other = {"etc/modules-load.d/gpu.conf": "ib_umad\n"}
    assert does_not_apply(node(peermem(STUB), other), peermem_redundant, NAME)


def with_dmabuf(verbs: dict[str, bytes]):
    files = installed(
        {"kernel/ib_uverbs.ko": build_module("ib_uverbs", exports=DMABUF)},
        exporters=dict.fromkeys(DMABUF, "ib_uverbs"),
    )
    return node(files, loaded("nvidia", NAME), driver(), verbs)


def test_it_is_redundant_if_dmabuf_is_available():
    assert failed(with_dmabuf(NEW_VERBS), peermem_redundant, NAME)
    assert paths_closed_by(peermem_redundant.takes(NAME)) == ()


def test_it_is_needed_if_dmabuf_is_not_available():
    assert passes(with_dmabuf(OLD_VERBS), peermem_redundant, NAME)


def test_a_full_module_that_is_configured_but_not_loaded_is_not_redundant():
    assert does_not_apply(node(peermem(), ASKED), peermem_redundant, NAME)
    assert missing(node(peermem(), complete=False), peermem_redundant, NAME)


# -- peermem-blocks-ofed -----------------------------------------------------------------------------------


def test_openibd_cannot_restart_while_it_is_loaded():
    files = {"etc/init.d/openibd": "#!/bin/bash\n"}

    assert failed(node(peermem(), loaded(NAME, "mlx_compat"), files), peermem_blocks_ofed, NAME)
    assert does_not_apply(node(peermem(), loaded(NAME), files), peermem_blocks_ofed, NAME)
    assert does_not_apply(node(peermem(), loaded("mlx_compat"), files), peermem_blocks_ofed, NAME)
    assert missing(node(complete=False, without="proc/modules"), peermem_blocks_ofed, NAME)


# -- lock-inversion ----------------------------------------------------------------------------------------


def with_mode(value: str, *parts: dict[str, str]):
    mode = {f"sys/module/{NAME}/parameters/peerdirect_support": f"{value}\n"}
    return node(peermem(), loaded(NAME), mode, *parts)


def test_the_legacy_mode_on_a_stack_that_does_not_need_it():
    assert "peerdirect_support=1" in failed(with_mode("1"), lock_inversion, NAME).seen
    assert passes(with_mode("0"), lock_inversion, NAME)


def test_the_legacy_mode_is_right_for_old_mlnx_ofed():
    from gdrkit.facts.commands import OFED_INFO

    for version, right in (("4.9-7.1.0.0", True), ("5.8-1.0.1.1", False)):
        machine = node(
            peermem(),
            loaded(NAME, "mlx_compat"),
            {f"sys/module/{NAME}/parameters/peerdirect_support": "1\n"},
            said={OFED_INFO: f"MLNX_OFED_LINUX-{version}:\n"},
        )
        assert passes(machine, lock_inversion, NAME) is right


def test_an_options_line_counts_before_it_is_loaded():
    files = {
        "etc/modprobe.d/p.conf": "options nvidia-peermem persistent_api_support=0 peerdirect_support=1\n"
    }

    assert "etc/modprobe.d/p.conf:1" in failed(node(peermem(), files), lock_inversion, NAME).seen
    assert does_not_apply(node(peermem()), lock_inversion, NAME)
    assert missing(node(peermem(), complete=False, without="proc/modules"), lock_inversion, NAME)


# -- p2p-page-table-version --------------------------------------------------------------------------------


def test_the_error_in_the_kernel_log_is_found():
    line = "gdrdrv:gdrdrv_pin_buffer:incompatible page table version 0x00020000"

    assert failed(node(log=kernel_log(line)), p2p_page_table_version).seen == line


def test_what_an_old_gdrdrv_was_compiled_for_is_not_known():
    old = {**loaded("gdrdrv"), "sys/module/gdrdrv/version": "2.4.1\n"}
    new = {**loaded("gdrdrv"), "sys/module/gdrdrv/version": "2.5.1\n"}
    unsaid = missing(node(driver("580.65.06"), old, log=kernel_log("eth0: link up")), p2p_page_table_version)

    assert unsaid.source == "driver that gdrdrv 2.4.1 was compiled for"
    assert passes(node(driver("580.65.06"), new), p2p_page_table_version)
    assert does_not_apply(node(driver("575.57.08"), old), p2p_page_table_version)
    assert missing(node(complete=False), p2p_page_table_version)
