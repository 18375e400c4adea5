"""Findings about the RDMA stack: its peer-memory API, its dma-buf, its user space."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceAbsent, MissingReason
from gdrkit.facts.rdma import RdmaDevice, rdma_devices
from gdrkit.node import Node
from gdrkit.programs.verbs.rules import provider_lacks_dmabuf, verbs_lacks_dmabuf
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.driver_ignores_peer_memory import brought_by_ofed, driver_ignores_peer_memory
from gdrkit.rules.kernel_lacks_dmabuf import kernel_lacks_dmabuf
from gdrkit.rules.kernel_lacks_odp import kernel_lacks_odp
from gdrkit.rules.memlock_limit import memlock_limit
from gdrkit.rules.ofed_multiple_dkms import ofed_multiple_dkms
from gdrkit.rules.ofed_rebuilt_after_driver import ofed_rebuilt_after_driver
from gdrkit.rules.rdma_lacks_peer_api import rdma_lacks_peer_api
from gdrkit.verdict.cells import paths_closed_by
from tests.evidence_builder.library import DMABUF as DMABUF_CALL
from tests.evidence_builder.library import VERBS, shared_object
from tests.memory_host import MemoryHost
from tests.module_builder import build_module
from tests.rules.machines import (
    API,
    DMABUF,
    MODULES,
    ODP,
    P2P,
    STUB,
    does_not_apply,
    failed,
    installed,
    loaded,
    missing,
    node,
    outcome,
    passes,
    peermem,
    rdma_device,
)

NAME = "nvidia_peermem"


# -- rdma-lacks-peer-api -----------------------------------------------------------------------------------


def test_a_stack_without_the_api_blocks_peermem():
    assert "nothing exports" in failed(node(peermem(provider={})), rdma_lacks_peer_api).seen
    assert paths_closed_by(rdma_lacks_peer_api.takes("node")) == ("peermem",)


@pytest.mark.parametrize("owner", ["ib_core", "ib_uverbs"])
def test_either_module_may_export_it(owner: str):
    assert passes(node(peermem(owner=owner)), rdma_lacks_peer_api)


def test_the_api_is_found_even_if_the_module_is_a_stub():
    assert passes(node(peermem(STUB)), rdma_lacks_peer_api)


def test_a_loaded_module_shows_that_the_api_exists():
    bare = {"proc/modules": f"{NAME} 1 0 - Live 0x0\n"}

    assert passes(node(bare, complete=False), rdma_lacks_peer_api)
    assert missing(node(complete=False), rdma_lacks_peer_api)
    assert passes(node(peermem(provider={}), loaded(NAME)), rdma_lacks_peer_api), "whatever the files say"


# -- ofed-rebuilt-after-driver -----------------------------------------------------------------------------

OTHER = dict.fromkeys(API, 0xB2)


def test_different_crcs_mean_another_build():
    found = failed(node(peermem(provider=OTHER)), ofed_rebuilt_after_driver, NAME)

    assert "CRC of ib_register_peer_memory_client" in found.seen
    assert found.takes is None


def test_a_loaded_module_keeps_working():
    assert failed(node(peermem(provider=OTHER), loaded(NAME)), ofed_rebuilt_after_driver, NAME).takes == ()


def test_a_stack_that_runs_after_a_reboot_is_compared_too():
    """ib_core on disk is another build than the one that runs, by its taint."""
    running = loaded(NAME, "ib_core")
    found = failed(node(peermem(provider=OTHER), running), ofed_rebuilt_after_driver, NAME)

    assert "after a reboot" in found.seen
    assert found.takes == ()
    assert passes(node(peermem(), running), ofed_rebuilt_after_driver, NAME)


def test_a_module_that_is_not_loaded_cannot_load_beside_the_stack_that_runs_after_a_reboot():
    """What runs now is unknown, so that only the next boot is certain: no path is closed yet."""
    found = failed(node(peermem(provider=OTHER), loaded("ib_core")), ofed_rebuilt_after_driver, NAME)

    assert (found.takes, found.cost) == ((), "After the next boot it cannot load.")


def test_a_module_that_is_not_loaded_depends_on_the_stack_that_runs():
    """Its file on disk agrees, and another build of it runs."""
    found = missing(node(peermem(), loaded("ib_core")), ofed_rebuilt_after_driver, NAME)

    assert "the running ib_core is not the file on disk" in found.source


def test_equal_crcs_a_stub_or_no_api_are_not_a_mismatch():
    assert passes(node(peermem()), ofed_rebuilt_after_driver, NAME)
    assert does_not_apply(node(peermem(STUB, provider=OTHER)), ofed_rebuilt_after_driver, NAME)
    assert does_not_apply(node(peermem(provider={})), ofed_rebuilt_after_driver, NAME)


def test_a_mismatch_with_the_driver_is_another_finding():
    files = {
        "lib/modules/6.1.0-56-amd64/updates/nvidia.ko": build_module("nvidia", exports=dict.fromkeys(P2P, 9))
    }

    assert passes(node(peermem(), files), ofed_rebuilt_after_driver, NAME)


def test_an_rdma_core_that_was_not_collected_is_unknown():
    machine = node(peermem(), complete=False, without="lib/modules/6.1.0-56-amd64/kernel/ib_core")

    assert missing(machine, ofed_rebuilt_after_driver, NAME).source.endswith("ib_core.ko")


# -- ofed-multiple-dkms ------------------------------------------------------------------------------------

SYMVERS = "".join(f"0x1\t{symbol}\tib_core\tEXPORT_SYMBOL\t\n" for symbol in API)


def builds(*versions: str) -> dict[str, str]:
    return {f"var/lib/dkms/mlnx-ofed-kernel/{version}/build/Module.symvers": SYMVERS for version in versions}


def test_two_builds_in_dkms_are_found():
    assert "24.07" in failed(node(builds("24.07", "24.10")), ofed_multiple_dkms).seen


def test_one_build_or_a_symvers_found_earlier_passes():
    earlier = {"usr/src/ofa_kernel/default/Module.symvers": SYMVERS}

    assert does_not_apply(node(builds("24.10")), ofed_multiple_dkms)
    assert passes(node(builds("24.07", "24.10"), earlier), ofed_multiple_dkms)
    assert missing(node(complete=False), ofed_multiple_dkms)


# -- verbs-lacks-dmabuf ------------------------------------------------------------------------------------

LIBRARY = "usr/lib/x86_64-linux-gnu/libibverbs.so.1"


def test_a_library_without_the_call_blocks_dmabuf():
    old = {LIBRARY: shared_object("libibverbs.so.1", VERBS)}

    assert DMABUF_CALL in failed(node(old), verbs_lacks_dmabuf).seen
    assert paths_closed_by(verbs_lacks_dmabuf.takes("node")) == ("dmabuf",)


def test_a_library_with_the_call_passes():
    assert passes(
        node({LIBRARY: shared_object("libibverbs.so.1", (*VERBS, DMABUF_CALL))}), verbs_lacks_dmabuf
    )


@pytest.mark.parametrize("complete", [True, False])
def test_a_library_that_was_not_collected_is_named_as_missing(complete: bool):
    lacking = missing(node(complete=complete), verbs_lacks_dmabuf)

    assert lacking.source == "libibverbs"
    assert (lacking.why is MissingReason.ABSENT) is complete
    assert issubclass(EvidenceAbsent, Exception)


# -- memlock-limit -----------------------------------------------------------------------------------------


def limits(soft: str) -> dict[str, str]:
    return {"proc/self/limits": f"Max locked memory         {soft}              {soft}            bytes\n"}


def test_the_default_limit_is_too_small():
    assert failed(node(rdma_device(), limits("8388608")), memlock_limit).seen == "8192 KiB"
    assert failed(node(rdma_device(), limits("65536")), memlock_limit).seen == "64 KiB"
    assert paths_closed_by(memlock_limit.takes("node")) == ()


def test_without_rdma_devices_the_limit_does_not_matter():
    assert does_not_apply(node(limits("65536")), memlock_limit)


def test_a_raised_limit_passes():
    assert passes(node(rdma_device(), limits("unlimited")), memlock_limit)
    assert passes(node(rdma_device(), limits("8388609")), memlock_limit)
    assert missing(node(complete=False), memlock_limit)


# -- kernel-lacks-dmabuf and kernel-lacks-odp --------------------------------------------------------------


def stack(mlx5_ib: dict[str, int], exports: dict[str, int] | None = None, **more: str):
    if exports is None:
        exports = {**DMABUF, **ODP}
    files = installed(
        {
            "kernel/ib_uverbs.ko": build_module(
                "ib_uverbs", exports=exports or {"ib_uverbs_x": 1}, intree=True
            ),
            "kernel/mlx5_ib.ko": build_module("mlx5_ib", imports=mlx5_ib, intree=True),
        },
        exporters=dict.fromkeys(exports, "ib_uverbs"),
    )
    return node(files, loaded("ib_uverbs", "mlx5_ib", "mlx5_core"), rdma_device(), more)


def the_device(machine) -> RdmaDevice:  # type: ignore[no-untyped-def]
    (device,) = rdma_devices(machine)
    return device


def judged(machine, rule):  # type: ignore[no-untyped-def]
    return failed(machine, rule, the_device(machine))


def test_a_driver_that_imports_both_symbols_passes():
    machine = stack({**DMABUF, **ODP})

    assert passes(machine, kernel_lacks_dmabuf, the_device(machine))
    assert passes(machine, kernel_lacks_odp, the_device(machine))


def test_a_core_without_the_export_blocks_dmabuf():
    assert "nothing exports" in judged(stack({}, ODP), kernel_lacks_dmabuf).seen


def test_a_driver_without_the_import_blocks_dmabuf():
    assert "mlx5_ib imports no" in judged(stack({"ib_register_device": 1}), kernel_lacks_dmabuf).seen
    assert paths_closed_by(kernel_lacks_dmabuf.takes(None)) == ("dmabuf",)


def test_symbols_decide_whatever_the_version_says():
    """A backport: the pinned form alone, on a kernel that calls itself 4.18."""
    machine = stack({"ib_umem_dmabuf_get_pinned": 1}, {"ib_umem_dmabuf_get_pinned": 1})

    assert passes(machine, kernel_lacks_dmabuf, the_device(machine))


def test_a_driver_without_odp_is_found():
    """mlx5 of Linux 6.1 without the option: its queues alone use dma-bufs."""
    machine = stack({"ib_umem_dmabuf_get_pinned": 1})

    assert "CONFIG_INFINIBAND_ON_DEMAND_PAGING" in judged(machine, kernel_lacks_odp).seen


def test_a_driver_that_imports_the_function_behind_the_option_was_built_with_it():
    """mlx5/mr.c calls ib_umem_dmabuf_get() only with on-demand paging."""
    machine = stack({"ib_umem_dmabuf_get": 1})

    assert passes(machine, kernel_lacks_odp, the_device(machine))


@pytest.mark.parametrize("driver", ["ice", "bnxt_en", "efa"])
def test_other_vendors_need_no_odp(driver: str):
    machine = node(rdma_device("irdma0", pci_driver=driver))

    assert does_not_apply(machine, kernel_lacks_odp, the_device(machine))


def test_other_drivers_are_judged_by_their_own_verbs_module():
    files = installed(
        {
            "kernel/ib_uverbs.ko": build_module("ib_uverbs", exports=DMABUF),
            "kernel/irdma.ko": build_module("irdma", imports={"ib_umem_dmabuf_get_pinned": 1}),
        },
        exporters=dict.fromkeys(DMABUF, "ib_uverbs"),
    )
    machine = node(files, rdma_device("irdma0", pci_driver="ice"))

    assert passes(machine, kernel_lacks_dmabuf, the_device(machine))


def test_built_in_drivers_are_judged_by_the_kernels_own_symbols():
    symbols = (
        "0000000000000000 r __ksymtab_ib_umem_dmabuf_get\n0000000000000000 r __ksymtab_ib_umem_odp_get\n"
    )
    builtin = {"sys/module/mlx5_ib/parameters/x": "1\n", "proc/kallsyms": symbols}
    machine = node(rdma_device(), builtin)

    assert passes(machine, kernel_lacks_dmabuf, the_device(machine))
    assert passes(machine, kernel_lacks_odp, the_device(machine))


def test_a_configuration_decides_odp_where_the_module_was_not_collected():
    config = {
        "boot/config-6.1.0-56-amd64": "# Automatically generated\nCONFIG_MODULES=y\n"
        "# CONFIG_INFINIBAND_ON_DEMAND_PAGING is not set\n"
    }
    files = installed({"kernel/mlx5_ib.ko": b""})
    machine = node(rdma_device(), files, config, complete=False, without=f"{MODULES}/kernel/mlx5_ib.ko")

    assert failed(machine, kernel_lacks_odp, the_device(machine))


def test_modules_that_were_not_collected_are_unknown():
    machine = node(rdma_device(), complete=False)

    assert missing(machine, kernel_lacks_dmabuf, the_device(machine))
    assert missing(machine, kernel_lacks_odp, the_device(machine))


def test_a_device_whose_driver_was_not_collected_is_unknown_unless_its_name_tells():
    machine = stack({**DMABUF, **ODP})

    assert passes(machine, kernel_lacks_dmabuf, RdmaDevice("mlx5_7"))
    found = missing(machine, kernel_lacks_dmabuf, RdmaDevice("ib mlx5"))
    assert found.source == "driver of ib mlx5"
    assert found.ask == "readlink '/sys/class/infiniband/ib mlx5/device/driver'"


def test_a_software_device_has_no_dmabuf():
    files = installed(
        {
            "kernel/ib_uverbs.ko": build_module("ib_uverbs", exports=DMABUF),
            "kernel/rdma_rxe.ko": build_module("rdma_rxe", imports={"ib_umem_get": 1}),
        },
        exporters=dict.fromkeys(DMABUF, "ib_uverbs"),
    )
    rxe = RdmaDevice("rxe0", virtual=True)

    assert "rdma_rxe imports no" in failed(node(files), kernel_lacks_dmabuf, rxe).seen
    assert outcome(node(files), kernel_lacks_odp, rxe)


# -- driver-ignores-peer-memory ----------------------------------------------------------------------------


def thor(module: bytes, taint: str = "") -> Node:
    files = installed({"kernel/bnxt_re.ko": module})
    return node(rdma_device("bnxt_re0", pci_driver="bnxt_en"), files, loaded("bnxt_re", taint=taint))


def test_the_kernels_own_driver_of_another_maker_asks_no_peer_client_and_closes_peermem():
    machine = thor(build_module("bnxt_re", imports={"ib_umem_get": 1}, intree=True))
    found = failed(machine, driver_ignores_peer_memory, the_device(machine))
    assert (found.subject, found.seen) == ("bnxt_re0", "bnxt_re imports no ib_umem_get_peer")
    assert paths_closed_by(driver_ignores_peer_memory.takes(found)) == ("peermem",)


def test_one_that_asks_them_passes_and_the_vendors_own_build_may_have_another_api():
    asking = thor(build_module("bnxt_re", imports={"ib_umem_get_peer": 1}, intree=False), "OE")
    assert passes(asking, driver_ignores_peer_memory, the_device(asking))
    own = thor(build_module("bnxt_re", imports={"ib_umem_get": 1}, intree=False), "OE")
    assert does_not_apply(own, driver_ignores_peer_memory, the_device(own))


def test_an_nvidia_nic_is_not_judged_by_it_and_an_unread_driver_is_unknown():
    machine = node(rdma_device())
    assert does_not_apply(machine, driver_ignores_peer_memory, the_device(machine))
    unread = node(rdma_device("bnxt_re0", pci_driver="bnxt_en"), loaded("bnxt_re"), complete=False)
    assert missing(unread, driver_ignores_peer_memory, the_device(unread))


def test_ofed_is_not_proposed_where_it_has_no_driver_for_a_nic():
    assert brought_by_ofed(node(rdma_device()))
    assert not brought_by_ofed(node(rdma_device("bnxt_re0", pci_driver="bnxt_en")))
    assert brought_by_ofed(node(complete=False))


def test_a_thor_needs_a_newer_kernel_or_broadcoms_driver_and_no_ofed():
    modules = {
        "kernel/ib_uverbs.ko": build_module("ib_uverbs", exports=DMABUF),
        "kernel/bnxt_re.ko": build_module("bnxt_re", imports={"ib_umem_get": 1}, intree=True),
    }
    files = installed(modules, exporters=dict.fromkeys(DMABUF, "ib_uverbs"))
    machine = node(rdma_device("bnxt_re0", pci_driver="bnxt_en"), files)
    found = failed(machine, kernel_lacks_dmabuf, the_device(machine))
    assert "Linux 6.6" in found.advice and "Do not install DOCA-OFED" in found.advice


# -- memlock-limit in a container --------------------------------------------------------------------------

DOCKERS, WITH_IPC_LOCK, WITH_SYS_RESOURCE = "00000000a80425fb", "00000000a80465fb", "00000000a90425fb"


def container(limit: str, capabilities: str, hard: str = "65536") -> Node:
    line = f"Max locked memory         {limit}                {hard}                bytes\n"
    files = {
        "proc/self/limits": line,
        "proc/self/status": f"Name:\tcat\nCapEff:\t{capabilities}\n",
        "proc/self/uid_map": "         0          0 4294967295\n",
        ".dockerenv": "",
    }
    return node(rdma_device(), files)


def test_a_container_that_can_lock_nothing_blocks_every_registration():
    found = failed(container("65536", DOCKERS), memlock_limit)

    assert set(found.takes or ()) == set(REGISTRATION)
    assert "--cap-add IPC_LOCK" in found.advice


@pytest.mark.parametrize(
    ("limit", "capabilities", "hard"),
    [
        ("8388608", DOCKERS, "8388608"),  # a small program may do
        ("65536", DOCKERS, "unlimited"),  # `ulimit -l unlimited` is enough
        ("65536", WITH_SYS_RESOURCE, "65536"),  # and here as well
    ],
)
def test_a_container_that_may_lock_enough_is_warned(limit: str, capabilities: str, hard: str):
    assert failed(container(limit, capabilities, hard), memlock_limit).takes is None


def test_a_container_with_the_capability_has_no_limit():
    assert passes(container("65536", WITH_IPC_LOCK), memlock_limit)


# -- provider-lacks-dmabuf ---------------------------------------------------------------------------------

FOLDER = "usr/lib/x86_64-linux-gnu"
REGISTERS = "ibv_cmd_reg_dmabuf_mr"


def device(driver: str) -> RdmaDevice:
    return RdmaDevice("rdma0", driver=driver)


def verbs(
    release: int,
    provider: str = "",
    imports: tuple[str, ...] = (),
    suffix: int = 34,
    always: tuple[str, ...] = ("ibv_cmd_reg_mr",),
) -> MemoryHost:
    """libibverbs of a release of rdma-core, and the file of one provider."""
    version = f"libibverbs.so.1.14.{release}.0"
    files = {f"{FOLDER}/{version}": shared_object("libibverbs.so.1", (*VERBS, DMABUF_CALL))}
    if provider:
        name = f"{FOLDER}/libibverbs/lib{provider}-rdmav{suffix}.so"
        files[name] = shared_object(name, (), imports=(*always, *imports))
    return MemoryHost(files, links={LIBRARY: version})


@pytest.mark.parametrize(
    ("driver", "provider"), [("ice", "irdma"), ("bnxt_en", "bnxt_re"), ("efa", "efa"), ("mana", "mana")]
)
def test_the_file_of_a_provider_shows_whether_it_registers_dma_bufs(driver: str, provider: str):
    """Whatever the release: a distribution may have backported it."""
    lacks, has = verbs(64, provider), verbs(39, provider, (REGISTERS,))

    assert provider in failed(node(lacks), provider_lacks_dmabuf, device(driver)).seen
    assert passes(node(has), provider_lacks_dmabuf, device(driver))
    assert paths_closed_by(provider_lacks_dmabuf.takes(device(driver))) == ("dmabuf",)


@pytest.mark.parametrize(
    ("driver", "first"), [("efa", 38), ("ice", 45), ("bnxt_en", 48), ("mana", 57), ("ionic_rdma", 61)]
)
def test_without_the_file_the_release_of_rdma_core_decides(driver: str, first: int):
    """Read in the sources of rdma-core, at its tags."""
    assert (
        f"rdma-core {first} or newer"
        in failed(node(verbs(first - 1)), provider_lacks_dmabuf, device(driver)).expected
    )
    assert passes(node(verbs(first)), provider_lacks_dmabuf, device(driver))


@pytest.mark.parametrize(
    ("driver", "provider", "first"), [("ice", "irdma", 45), ("bnxt_en", "bnxt_re", 48), ("efa", "efa", 38)]
)
def test_a_file_that_imports_nothing_of_libibverbs_proves_no_lack(driver: str, provider: str, first: int):
    """Every provider calls ibv_cmd_reg_mr: a file without that is none, or its symbols were taken away."""
    new, old = (verbs(release, provider, always=()) for release in (first, first - 1))

    assert passes(node(new), provider_lacks_dmabuf, device(driver))
    assert "registers no dma-bufs" in failed(node(old), provider_lacks_dmabuf, device(driver)).seen


def test_a_provider_as_old_as_the_function_is_left_to_verbs_lacks_dmabuf():
    assert does_not_apply(node(verbs(34)), provider_lacks_dmabuf, device("mlx5_core"))
    assert does_not_apply(node(verbs(34)), provider_lacks_dmabuf, device("hns3"))


def test_of_two_providers_none_is_taken_for_the_loaded_one():
    both = verbs(39, "irdma"), verbs(39, "irdma", (REGISTERS,), suffix=57)

    assert "irdma" in failed(node(*both), provider_lacks_dmabuf, device("ice")).seen  # by the release, 39


def test_a_provider_of_which_nothing_was_collected_is_unknown():
    assert missing(node(complete=False), provider_lacks_dmabuf, device("ice")).source == "libibverbs"
