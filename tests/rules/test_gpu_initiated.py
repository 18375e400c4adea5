"""What a GPU kernel needs to start transfers itself: a doorbell to ring, and the NIC's queues."""

from __future__ import annotations

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.driver import registry_dwords
from gdrkit.facts.verbs_kernel import queues_take_dmabuf
from gdrkit.rules.gin import gdaki_kernel_too_old, ibgda_peer_mapping_denied
from gdrkit.rules.rule import DOORBELL, NIC_QUEUES
from tests.debian_kernels import KERNELS, module
from tests.module_builder import build_module
from tests.rules.machines import (
    MODULES,
    Files,
    does_not_apply,
    driver,
    failed,
    installed,
    loaded,
    missing,
    node,
    passes,
)

PARAMS = "proc/driver/nvidia/params"
HOST = {"proc/1/cgroup": "0::/init.scope\n", "proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"}
CONTAINER = {".dockerenv": ""}
PRIVILEGED = "CapEff:\t000001ffffffffff\n"
ORDINARY = "CapEff:\t00000000a80425fb\n"
"""Docker's default: SYS_ADMIN, bit 21, is not in it. moby oci/caps/defaults.go."""
ROOT, MAPPED = "         0          0 4294967295\n", "         0     100000      65536\n"


def with_dwords(value: str, *parts: Files):
    return node(driver(), {PARAMS: f'RegistryDwords: "{value}"\n'}, *parts)


# -- the doorbell --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["", "PeerMappingOverride=0;", "RMForceStaticBar1=1;", "PeerMappingOverride"]
)
def test_without_the_option_only_an_administrator_may_ring_it(value: str):
    found = failed(with_dwords(value, HOST), ibgda_peer_mapping_denied)

    assert found.seen == "RegistryDwords has no PeerMappingOverride=1; only CAP_SYS_ADMIN may do it"
    assert ibgda_peer_mapping_denied.takes(None) == (DOORBELL,)


@pytest.mark.parametrize(
    "value",
    ["PeerMappingOverride=1;", "RMForceStaticBar1=1;PeerMappingOverride=1", "PeerMappingOverride = 0x1 ;"],
)
def test_with_the_option_every_process_may(value: str):
    assert passes(with_dwords(value, HOST), ibgda_peer_mapping_denied)


@pytest.mark.parametrize(
    ("capabilities", "users", "allowed"),
    [(PRIVILEGED, ROOT, True), (PRIVILEGED, MAPPED, False), (ORDINARY, ROOT, False)],
)
def test_in_a_container_its_capabilities_decide(capabilities: str, users: str, allowed: bool):
    inside = {**CONTAINER, "proc/self/status": capabilities, "proc/self/uid_map": users}
    machine = with_dwords("", inside)

    if allowed:
        assert passes(machine, ibgda_peer_mapping_denied)
    else:
        assert "this container lacks CAP_SYS_ADMIN" in failed(machine, ibgda_peer_mapping_denied).seen


def test_it_is_unknown_without_the_drivers_parameters_or_the_containers_capabilities():
    unread = node(driver(), HOST, complete=False, without=PARAMS)
    inside = node(driver(), CONTAINER, complete=False)

    assert missing(unread, ibgda_peer_mapping_denied).source == PARAMS
    assert missing(inside, ibgda_peer_mapping_denied).source == "proc/self/status"


def test_it_does_not_apply_where_no_driver_is_loaded():
    assert does_not_apply(node(HOST), ibgda_peer_mapping_denied)


def test_a_malformed_entry_sets_nothing():
    machine = with_dwords("=1;;PeerMappingOverride;RMForceStaticBar1=2")

    assert registry_dwords(machine) == {"RMForceStaticBar1": 2}


# -- the NIC's queues ----------------------------------------------------------------------------------


def with_mlx5(*imports: str, running: tuple[str, ...] = ()):
    """A machine whose mlx5_ib imports these functions for dma-bufs."""
    built = build_module("mlx5_ib", imports=dict.fromkeys(("ib_umem_get", *imports), 0x11))
    return node(installed({"kernel/mlx5_ib.ko": built}), loaded(*running))


def test_before_linux_6_1_the_queues_need_peermem():
    found = failed(with_mlx5("ib_umem_dmabuf_get"), gdaki_kernel_too_old)

    assert (
        found.seen == "mlx5_ib does not import ib_umem_dmabuf_get_pinned, and nvidia_peermem is not loaded"
    )
    assert gdaki_kernel_too_old.takes(None) == (NIC_QUEUES,)


@pytest.mark.parametrize("client", ["nvidia_peermem", "nv_peer_mem"])
def test_peermem_serves_in_its_place(client: str):
    assert passes(with_mlx5("ib_umem_dmabuf_get", running=(client,)), gdaki_kernel_too_old)


def test_a_driver_that_registers_them_as_dma_bufs_passes():
    assert passes(with_mlx5("ib_umem_dmabuf_get", "ib_umem_dmabuf_get_pinned"), gdaki_kernel_too_old)


def test_the_call_for_data_direct_is_not_the_one_for_queues():
    machine = with_mlx5("ib_umem_dmabuf_get", "ib_umem_dmabuf_get_pinned_with_dma_device")

    failed(machine, gdaki_kernel_too_old)


def test_without_the_module_it_is_unknown_or_does_not_apply():
    files = installed({"kernel/mlx5_ib.ko": b""})
    uncollected = node(files, complete=False, without=f"{MODULES}/kernel/mlx5_ib.ko")

    assert missing(uncollected, gdaki_kernel_too_old).why is MissingReason.NOT_COLLECTED
    assert does_not_apply(node(installed({})), gdaki_kernel_too_old)


@pytest.mark.parametrize(("scope", "where"), [(CONTAINER, ", on the host"), (HOST, "")])
def test_where_no_module_has_a_file_the_advice_is_not_to_install_the_running_one(scope: Files, where: str):
    """A container shows the host's modules in /proc and /sys, and has no /lib/modules."""
    release = {"proc/sys/kernel/osrelease": "6.8.0-45-generic\n"}
    found = missing(node(release, loaded("mlx5_ib"), scope), gdaki_kernel_too_old)

    assert (found.source, found.ask) == (
        "lib/modules/6.8.0-45-generic",
        f"ls /lib/modules/$(uname -r)/modules.dep{where}",
    )


@pytest.mark.parametrize(("version", "architecture"), KERNELS)
def test_debians_kernels_from_6_1_on_have_it(version: str, architecture: str):
    """The kernels as built, of which 6.1 is the first with the change."""
    path = module(version, architecture, "mlx5_ib")
    machine = node(installed({f"kernel/{path.name}": path.read_bytes()}))

    assert queues_take_dmabuf(machine)
