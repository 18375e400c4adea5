"""An NVSHMEM that looks for files that newer kernels do not have."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.programs.nvshmem.rules import nvshmem_misses_peermem
from tests.rules.machines import does_not_apply, driver, failed, loaded, missing, node, passes, wheel

LIB = "usr/lib/x86_64-linux-gnu"
RUNNING = {**loaded("nvidia_peermem"), "sys/module/nvidia_peermem/version": "570.158.01\n"}
FUNCTION = "sys/bus/pci/devices/0000:1b:00.0"
BARE_METAL = {"proc/cpuinfo": "flags\t\t: fpu vme\n"}
GPU = {
    **BARE_METAL,
    f"{FUNCTION}/vendor": "0x10de\n",
    f"{FUNCTION}/device": "0x1eb8\n",
    f"{FUNCTION}/class": "0x030200\n",
}
PEERS = {"sys/kernel/mm/memory_peers/nvidia-peermem/version": "570.158.01\n"}


def with_nvshmem(version: str, *parts: dict[str, bytes | str]):
    """Beside the proprietary driver, unless the parts have another."""
    library = {f"{LIB}/libnvshmem_host.so.{version}": ""}
    return node(
        driver(open_modules=False),
        RUNNING,
        library,
        *parts,
        links={f"{LIB}/libnvshmem_host.so.3": f"libnvshmem_host.so.{version}"},
    )


def test_up_to_3_2_5_it_does_not_detect_a_loaded_module():
    found = failed(with_nvshmem("3.2.5"), nvshmem_misses_peermem)

    assert "NVSHMEM 3.2.5" in found.seen
    assert found.expected == "NVSHMEM 3.3.9 or newer"
    assert nvshmem_misses_peermem.takes(None) == NVSHMEM.own("peermem")


@pytest.mark.parametrize("version", ["3.3.9", "3.3.24", "3.4.5", "3.5.1"])
def test_from_3_3_9_on_it_detects_it(version: str):
    assert passes(with_nvshmem(version), nvshmem_misses_peermem)


@pytest.mark.parametrize("version", ["3.2.6", "3.3.8"])
def test_versions_that_were_not_examined_are_unknown(version: str):
    assert missing(with_nvshmem(version), nvshmem_misses_peermem).why is MissingReason.UNDECIDED


def test_every_version_detects_either_client_in_the_folder():
    other = {"sys/kernel/mm/memory_peers/nv_mem/version": "1\n"}

    assert passes(with_nvshmem("3.2.5", PEERS), nvshmem_misses_peermem)
    assert passes(with_nvshmem("3.2.5", other), nvshmem_misses_peermem)


def test_where_the_gpu_offers_dmabuf_it_looks_for_no_file():
    assert does_not_apply(with_nvshmem("3.2.5", driver(), GPU), nvshmem_misses_peermem)


def test_a_gpu_before_turing_does_not_offer_it():
    old = {**GPU, f"{FUNCTION}/device": "0x1db6\n"}

    assert failed(with_nvshmem("3.2.5", driver(), old), nvshmem_misses_peermem)


@pytest.mark.parametrize(("value", "looks"), [("1", True), ("0", False)])
def test_a_setting_that_forbids_dmabuf_makes_it_look(value: str, looks: bool):
    setting = {"etc/environment": f"NVSHMEM_IB_DISABLE_DMABUF={value}\n"}
    machine = with_nvshmem("3.2.5", driver(), GPU, setting)

    assert does_not_apply(machine, nvshmem_misses_peermem) is not looks


def test_without_evidence_of_the_drivers_kind_it_is_unknown():
    seen = with_nvshmem("3.2.5")
    unseen = node(RUNNING, complete=False, without="proc/driver/nvidia/version")

    assert failed(seen, nvshmem_misses_peermem)
    assert missing(unseen, nvshmem_misses_peermem)


def test_a_new_copy_beside_an_old_one_blocks_nothing():
    old = wheel("nvidia_nvshmem_cu12-3.2.5", "nvidia/nvshmem")

    assert failed(with_nvshmem("3.4.5", old), nvshmem_misses_peermem).takes == ()


def test_it_does_not_apply_without_the_module_or_without_nvshmem():
    library = {f"{LIB}/libnvshmem_host.so.3.2.5": ""}
    links = {f"{LIB}/libnvshmem_host.so.3": "libnvshmem_host.so.3.2.5"}

    assert does_not_apply(node(library, links=links), nvshmem_misses_peermem)
    assert does_not_apply(node(RUNNING), nvshmem_misses_peermem)


def test_without_evidence_of_nvshmem_it_is_unknown():
    unseen = node(RUNNING, complete=False, absent={"sys/kernel/mm/memory_peers"})

    assert missing(unseen, nvshmem_misses_peermem).source == "libnvshmem_host"
