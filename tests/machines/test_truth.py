"""The truth against what was measured on real kernels, and against documents."""

from __future__ import annotations

import random

import pytest
from machines.cases import case
from machines.distance import distance, own
from machines.kernels import KERNELS
from machines.loading import EXEC, INVALID, NOT_FOUND, NOT_PERMITTED, REJECTED, UNKNOWN_SYMBOL, modprobe
from machines.machine import Libraries, Machine, Ofed, Peermem
from machines.nvidia import in_use
from machines.truth import judge

from machines import draw


def server(**values: object) -> Machine:
    """A healthy x86 server whose kernel has the peer-memory API, with values of its description changed."""
    for number in range(2000):
        made = draw.machine(number, random.Random(number), "rails")
        if made.kernel.release == "5.15.0-119-generic" and not made.ofed and made.peermem.kind == "full":
            made.trust = draw.trust("no Secure Boot")
            made.peermem = Peermem("full", made.inbox_tag)
            for name, value in values.items():
                setattr(made, name, value)
            return made
    raise AssertionError("no such machine")


def file_with(**values: object) -> Peermem:
    return Peermem(**{"kind": "full", "built_against": "kernel-5.15.0-119-generic", **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trust", "signer", "error"),
    [
        ("no Secure Boot", "", ""),
        ("no Secure Boot", "a stranger", ""),
        ("sig_enforce", "", REJECTED),
        ("sig_enforce", "a stranger", REJECTED),
        ("lockdown", "", NOT_PERMITTED),
        ("lockdown", "a stranger", NOT_PERMITTED),
        ("Secure Boot", "", REJECTED),
        ("shim validation off", "", ""),
        ("sig_enforce", "Canonical Ltd. Kernel Module Signing", ""),
    ],
)
def test_signatures_are_refused_as_on_debians_kernels(trust, signer, error):
    machine = server(peermem=file_with(signer=signer))
    machine.trust = draw.trust(trust)

    assert modprobe(machine).error == error


@pytest.mark.parametrize(
    ("peermem", "error"),
    [
        (file_with(kind="none"), NOT_FOUND),
        (file_with(kind="stub"), INVALID),
        (file_with(damage="truncated"), EXEC),
        (file_with(damage="empty"), INVALID),
        (file_with(flags="SMP mod_unload modversions "), EXEC),
        (file_with(extra_imports=("a_symbol_of_nobody",)), UNKNOWN_SYMBOL),
        (file_with(extra_imports=("class_create",), license="Linux-OpenIB"), UNKNOWN_SYMBOL),
        (file_with(built_against="another kernel"), INVALID),
    ],
)
def test_a_file_is_refused_with_the_words_of_the_kernel(peermem, error):
    assert modprobe(server(peermem=peermem)).error == error


def test_install_lines_and_lists_decide_before_the_file_is_opened():
    broken = file_with(damage="truncated")

    hidden = modprobe(server(peermem=broken, modprobe_d=["install nvidia-peermem /bin/true"]))
    refused = modprobe(server(peermem=broken, modprobe_d=["install nvidia-peermem /bin/false"]))
    listed = modprobe(server(peermem=file_with(), module_blacklist=["nvidia_peermem"]))

    assert (hidden.error, hidden.loaded) == ("", False)
    assert refused.error == INVALID
    assert listed.error == NOT_PERMITTED
    assert modprobe(server(peermem=file_with(), modprobe_d=["blacklist nvidia-peermem"])).loaded


def test_what_a_module_needs_is_loaded_before_its_install_line_runs():
    """kmod: __kmod_module_get_probe_list() lists the dependencies whatever command the module has."""
    machine = server(modprobe_d=["install nvidia-peermem /bin/false"])
    machine.driver.loaded, machine.driver.signed_nvidia = False, ""
    machine.trust = draw.trust("sig_enforce")

    assert modprobe(machine).error == REJECTED


@pytest.mark.parametrize("consumer", ["verbs", "mooncake"])
@pytest.mark.parametrize("version", ["570.158.01", "580.95.05"])
def test_nv_peer_mem_serves_every_driver_for_those_who_only_register(version, consumer):
    """nv_peer_mem.c 1.3 checks the version of a DMA mapping, not that of a page table."""
    machine = server(legacy_client="loaded")
    machine.driver.version, machine.driver.is_open = version, False

    assert judge(machine).states[consumer] == {"ready"}


@pytest.mark.parametrize(("is_open", "state"), [(True, "ready"), (False, "blocked")])
def test_nvshmem_looks_for_peermem_only_where_no_dmabuf_is_offered(is_open, state):
    """nvshmem ibrc.cpp, check_nv_peer_mem; where the kernel cannot import, ibv_reg_mr() serves."""
    machine = server(libraries=Libraries(nvshmem="3.2.5"))
    machine.kernel = machine.kernel._replace(dmabuf=False)
    machine.peermem.loaded, machine.driver.is_open = True, is_open
    truth = judge(machine)

    assert truth.states["nvshmem"] == {state}
    assert ("nvshmem-misses-peermem" in truth.codes) is (not is_open)


def test_an_ofed_imports_dmabufs_only_where_the_kernel_lets_it():
    machine = server(ofed=Ofed("mlnx", "23.10-2.1.3.1", "ib_core", "ofed", running="ofed"))
    focal = next(kernel for kernel in KERNELS if kernel.number == (5, 4))

    assert "kernel-lacks-dmabuf" not in judge(machine).codes
    machine.kernel = focal
    assert "kernel-lacks-dmabuf" in judge(machine).codes


def test_a_gpu_is_judged_at_its_own_nic_whatever_its_port_does():
    machine = next(m for n in range(999) if len((m := draw.machine(n, random.Random(n), "rails")).gpus) > 1)
    gpu = machine.gpus[-1]
    nearest = own(machine, gpu, machine.nics)
    for nic in nearest:
        nic.state = "DOWN"

    assert {distance(machine, gpu, nic) for nic in nearest} == {"PIX"}
    assert own(machine, gpu, machine.nics) == nearest
    assert "blocked" in judge(machine).states["verbs"] | judge(machine).states["nccl"]


def test_a_display_card_beside_an_accelerator_does_not_count():
    for number in range(300):
        machine = draw.machine(number, random.Random(number), "display card beside")
        if judge(machine).states["nccl"] == {"ready"}:
            return
    raise AssertionError("no such machine works")


def test_a_display_card_is_no_missing_neighbour():
    for number in range(300):
        machine = draw.machine(number, random.Random(number), "display card beside")
        if len(machine.gpus) == 3:
            assert not {"gpu-missing", "nic-missing"} & judge(machine).codes
            return
    raise AssertionError("no such machine")


def test_mooncake_registers_without_looking_for_a_client_first():
    """Mooncake 0.2.0 to 0.3.12.post1, rdma_context.cpp: ibv_reg_mr() decides."""
    with_legacy = server(legacy_client="loaded")
    with_legacy.driver.version = "575.57.08"

    assert judge(with_legacy).states["mooncake"] == {"ready"}
    assert judge(server(peermem=file_with(kind="stub"))).states["mooncake"] == {"blocked"}


@pytest.mark.parametrize(
    ("fault", "state"),
    [
        ("", "ready"),
        ("fabric not joined", "blocked"),
        ("fabric refused", "blocked"),
        ("no IMEX channel", "blocked"),
        ("NCCL_CUMEM_ENABLE=0", "blocked"),
        ("NCCL_MNNVL_ENABLE=0", "blocked"),
        ("two cliques", "ready"),  # those of one clique still reach each other
        ("out of the rack", "impossible"),
    ],
)
def test_what_nvlink_between_hosts_needs(fault, state):
    """NCCL src/mnnvl.cc, ncclMnnvlCheck()."""
    made = case(11, 0, fault or "two cliques")
    machine = made.machine if fault else made.healthy

    assert judge(machine).states["mnnvl"] == {state}


@pytest.mark.parametrize(("down", "cause"), [(1, "driver-not-loaded"), (4, "port-down")])
def test_the_cause_is_what_stops_most_gpus_and_of_two_such_the_lowest(down, cause):
    machine = server()
    assert len(machine.gpus) == 4
    machine.driver.loaded = False
    for gpu in machine.gpus[:down]:
        for nic in own(machine, gpu, machine.nics):
            nic.state = "DOWN"

    assert {"driver-not-loaded", "port-down"} & judge(machine).headline == {cause}


def test_no_job_has_memory_attached_that_the_driver_refuses_to_attach():
    """nv_dma_buf_attach() asks nv_grdma_pci_topology_supported(); so a refused pair is never in use."""
    made = next(
        found
        for number in range(400)
        if (found := case(number, 0, "Altra without a common switch")).healthy.in_use
        and in_use(found.healthy)
    )
    assert made.machine.in_use and in_use(made.machine) == []
