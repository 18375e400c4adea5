"""Findings about NCCL, UCX, plugins and second copies of libraries."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.libraries import other_libibverbs
from gdrkit.formats.versions import numbers
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.library_rules import nccl_lacks_dmabuf, nccl_misses_peermem, net_plugin_replaced
from gdrkit.programs.ucx.rules import ucx_lacks_dmabuf, ucx_misses_peermem
from gdrkit.programs.verbs.rules import perftest_tests_other_path, verbs_library_old
from gdrkit.rules.rule import Passed
from tests.evidence_builder.library import DMABUF, VERBS, shared_object
from tests.rules.machines import (
    PACKAGES,
    does_not_apply,
    failed,
    loaded,
    missing,
    node,
    outcome,
    passes,
    wheel,
)

LIB = "usr/lib/x86_64-linux-gnu"
NAME = "nvidia_peermem"
RUNNING = {**loaded(NAME), f"sys/module/{NAME}/version": "570.158.01\n"}
PEERS = {"sys/kernel/mm/memory_peers/nv_mem/version": "570.158.01\n"}


def nccl(version: str) -> dict[str, str]:
    return {f"{LIB}/libnccl.so.{version}": ""}


def with_nccl(version: str, *parts: dict[str, str]):
    return node(RUNNING, nccl(version), *parts, links={f"{LIB}/libnccl.so.2": f"libnccl.so.{version}"})


# -- nccl-misses-peermem -----------------------------------------------------------------------------------


def test_nccl_before_2_23_4_does_not_detect_a_loaded_module():
    found = failed(with_nccl("2.22.3"), nccl_misses_peermem)

    assert "NCCL 2.22.3" in found.seen
    assert nccl_misses_peermem.takes(None) == NCCL.own("peermem")
    assert found.takes is None


def test_nccl_2_23_4_detects_it():
    assert passes(with_nccl("2.23.4"), nccl_misses_peermem)


def test_old_versions_detect_it_if_the_folder_exists():
    assert passes(with_nccl("2.20.5", PEERS), nccl_misses_peermem)


def test_only_2_22_accepts_a_client_of_the_other_name():
    other = {"sys/kernel/mm/memory_peers/nv_mem_nc/version": "1\n"}

    assert passes(with_nccl("2.22.3", other), nccl_misses_peermem)
    assert failed(with_nccl("2.21.5", other), nccl_misses_peermem)


def test_it_does_not_apply_if_the_module_is_not_loaded():
    machine = node(nccl("2.18.1"), links={f"{LIB}/libnccl.so.2": "libnccl.so.2.18.1"})

    assert does_not_apply(machine, nccl_misses_peermem)


def test_an_nccl_that_was_not_seen_is_assumed_to_be_new():
    assert does_not_apply(node(RUNNING), nccl_misses_peermem)
    assert does_not_apply(node(), nccl_lacks_dmabuf)


def test_if_the_version_matters_and_was_not_collected_it_is_unknown():
    machine = node(RUNNING, complete=False, absent={"sys/kernel/mm/memory_peers"})

    assert missing(machine, nccl_misses_peermem).source == "libnccl"
    assert passes(node(RUNNING, PEERS, complete=False), nccl_misses_peermem)


def test_with_a_containerized_driver_programs_have_their_own_nccl():
    container = {"run/nvidia/driver/etc/os-release": ""}
    machine = node(RUNNING, container, complete=False, absent={"sys/kernel/mm/memory_peers"})

    assert does_not_apply(machine, nccl_misses_peermem)


def test_an_nccl_without_a_version_in_its_name_is_undecided():
    assert (
        missing(node(RUNNING, {f"{LIB}/libnccl.so.2": ""}), nccl_misses_peermem).why
        is MissingReason.UNDECIDED
    )


def test_one_old_copy_beside_a_new_one_blocks_nothing():
    old = wheel("nvidia_nccl_cu12-2.18.1", "nvidia/nccl")

    assert failed(with_nccl("2.27.3", old), nccl_misses_peermem).takes == ()


def test_metadata_that_a_removal_left_is_not_a_copy():
    """pip left the folder's name; the library went."""
    assert passes(with_nccl("2.27.3", wheel("nvidia_nccl_cu12-2.18.1")), nccl_misses_peermem)
    assert passes(
        with_nccl("2.27.3", wheel("nvidia_nccl_cu12-2.18.1", "nvidia/cublas")), nccl_misses_peermem
    )


def test_of_two_versions_in_one_folder_the_old_one_is_not_claimed():
    """Only one of them can be there, and nothing says which."""
    both = wheel("nvidia_nccl_cu12-2.18.1", "nvidia/nccl") | wheel("nvidia_nccl_cu12-2.27.3")
    found = missing(node(RUNNING, both), nccl_misses_peermem)

    assert (found.source, found.why) == (f"version in {PACKAGES}", MissingReason.UNDECIDED)


def test_such_a_folder_matters_only_where_no_other_copy_is_new_enough():
    both = wheel("nvidia_nccl_cu12-2.18.1", "nvidia/nccl") | wheel("nvidia_nccl_cu12-2.27.3")

    assert passes(with_nccl("2.27.3", both), nccl_misses_peermem)
    assert failed(with_nccl("2.18.1", both), nccl_misses_peermem).takes == ()


def test_two_versions_in_one_folder_that_are_both_too_old_fail():
    both = wheel("nvidia_nccl_cu12-2.18.1", "nvidia/nccl") | wheel("nvidia_nccl_cu12-2.21.5")

    assert failed(node(RUNNING, both), nccl_misses_peermem).takes is None


def test_a_log_names_the_version_of_its_job():
    log = {"sos_commands/nccl/rank0.log": "NCCL version 2.19.3+cuda12.2\n"}

    assert "rank0.log:1" in failed(node(RUNNING, log), nccl_misses_peermem).seen


def test_a_folder_of_clients_that_was_not_collected_is_unknown():
    machine = node(
        RUNNING, nccl("2.20.5"), links={f"{LIB}/libnccl.so.2": "libnccl.so.2.20.5"}, complete=False
    )

    assert missing(machine, nccl_misses_peermem).source.startswith("sys/kernel/mm/memory_peers")


# -- nccl-lacks-dmabuf -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "able"), [("2.12.12", False), ("2.13.4", True), ("2.10.3", False)])
def test_nccl_supports_dmabuf_from_2_13_4_on(version: str, able: bool):
    assert passes(with_nccl(version), nccl_lacks_dmabuf) is able
    if not able:
        assert failed(with_nccl(version), nccl_lacks_dmabuf).takes is None


# -- ucx ---------------------------------------------------------------------------------------------------


def ucx(version: str) -> dict[str, str]:
    return {f"{LIB}/pkgconfig/ucx.pc": f"Name: ucx\nVersion: {version}\n"}


@pytest.mark.parametrize(("version", "finds"), [("1.17.0", False), ("1.18.0", True), ("1.9.0", False)])
def test_ucx_before_1_18_looks_only_below_memory_peers(version: str, finds: bool):
    assert passes(node(RUNNING, ucx(version)), ucx_misses_peermem) is finds
    assert passes(node(RUNNING, PEERS, ucx(version)), ucx_misses_peermem)


def test_the_version_is_requested_only_if_it_matters():
    unseen = node(RUNNING, complete=False, absent={"sys/kernel/mm/memory_peers"})

    assert missing(unseen, ucx_misses_peermem).source == "libucp"
    assert passes(node(RUNNING, PEERS, complete=False), ucx_misses_peermem)
    assert does_not_apply(node(), ucx_misses_peermem)
    assert does_not_apply(node(RUNNING), ucx_misses_peermem)


@pytest.mark.parametrize(("version", "able"), [("1.13.1", False), ("1.14.0", True)])
def test_ucx_supports_dmabuf_from_1_14_on(version: str, able: bool):
    assert passes(node(ucx(version)), ucx_lacks_dmabuf) is able


def test_a_ucx_that_was_not_collected_is_not_known_to_be_new():
    assert does_not_apply(node(), ucx_lacks_dmabuf)
    unread = node(complete=False)
    found = outcome(unread, ucx_lacks_dmabuf)
    assert isinstance(found, Passed) and found.lacking


def test_versions_are_compared_as_numbers():
    assert numbers("1.9.0") < numbers("1.14.0") < numbers("1.18.1-rc2")


# -- net-plugin-replaced -----------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["IBext_v10", "AWS Libfabric", "FasTrak"])
def test_a_plugin_in_the_log_is_found(network: str):
    log = {"sos_commands/nccl/a": f"n1:1:2 [0] NCCL INFO Using network {network}\n"}

    assert network in failed(node(log), net_plugin_replaced).seen
    assert net_plugin_replaced.takes("node") == ()


def test_an_installed_plugin_is_found():
    assert (
        failed(node({f"{LIB}/libnccl-net.so": ""}), net_plugin_replaced).subject == f"{LIB}/libnccl-net.so"
    )


@pytest.mark.parametrize("network", ["IB", "Socket"])
def test_nccls_own_networks_are_not_plugins(network: str):
    log = {"sos_commands/nccl/a": f"n1:1:2 [0] NCCL INFO Using network {network}\n"}

    assert passes(node(log, {f"{LIB}/libnccl-net.so": ""}), net_plugin_replaced)
    assert does_not_apply(node(complete=False), net_plugin_replaced)


# -- verbs-library-old -------------------------------------------------------------------------------------

COPY = "usr/local/lib64/libibverbs.so.1"


@pytest.mark.parametrize(("symbols", "able"), [(VERBS, False), ((*VERBS, DMABUF), True)])
def test_a_second_copy_without_the_function_is_found(symbols: tuple[str, ...], able: bool):
    machine = node({COPY: shared_object("libibverbs.so.1", symbols)})
    (library,) = other_libibverbs(machine)

    assert passes(machine, verbs_library_old, library) is able
    assert other_libibverbs(node()) == ()


def test_a_damaged_copy_is_unknown():
    machine = node({COPY: b"\x7fELF"})
    (library,) = other_libibverbs(machine)

    assert missing(machine, verbs_library_old, library)


# -- perftest-tests-other-path -----------------------------------------------------------------------------

PATH = "sos_commands/perftest/run"
TABLE = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"


def perftest(text: str):
    return node({PATH: text})


@pytest.mark.parametrize(
    "text",
    [
        "$ ib_write_bw -d mlx5_0 --use_cuda=0 -a\ninitializing CUDA\nCouldn't allocate MR with error=14\n",
        f"ib_write_bw --use_cuda=0\n{TABLE} 65536      5000             391.1              390.9   0.7\n",
        "making it the current CUDA Ctx\nCouldn't allocate MR with error=14\nfailed to create mr\n",
    ],
)
def test_without_the_option_it_tests_peermem(text: str):
    assert failed(perftest(text), perftest_tests_other_path, PATH)


def test_with_the_option_it_tests_dmabuf():
    text = f"$ ib_write_bw --use_cuda=0 --use_cuda_dmabuf\n{TABLE} 65536  5000  391.1  390.9  0.7\n"

    assert passes(perftest(text), perftest_tests_other_path, PATH)


@pytest.mark.parametrize(
    ("options", "shown", "memory"),
    [
        ("--use_cuda=0 --use_cuda_dmabuf --cuda_mem_type=1", "", "managed"),
        ("--use_cuda_bus_id=0000:1b:00.0 --cuda_mem_type 4", "", "host"),
        (
            "--use_cuda=0",
            "allocated GPU buffer of a 4096 address at 0x1 for type CUDA_MEM_MANAGED\n",
            "managed",
        ),
    ],
)
def test_managed_and_host_memory_test_neither_path(options: str, shown: str, memory: str):
    text = f"$ ib_write_bw {options}\n{shown}{TABLE} 65536  5000  391.1  390.9  0.7\n"

    assert failed(perftest(text), perftest_tests_other_path, PATH).seen == f"a run with {memory} memory"


@pytest.mark.parametrize("more", ["--cuda_mem_type=0", "--use_data_direct", "--use_cuda_pcie_mapping"])
def test_newer_options_beside_it_test_dmabuf(more: str):
    text = f"$ ib_write_bw --use_cuda=0 --use_cuda_dmabuf {more}\n{TABLE} 65536  5000  391.1  390.9  0.7\n"

    assert passes(perftest(text), perftest_tests_other_path, PATH)


def test_a_run_with_host_memory_does_not_apply():
    text = f"ib_write_bw -d mlx5_0\n{TABLE} 65536  5000  391.1  390.9  0.7\n"

    assert does_not_apply(perftest(text), perftest_tests_other_path, PATH)


def test_output_of_another_program_is_unknown():
    assert missing(perftest("make: nothing to be done\n"), perftest_tests_other_path, PATH)
