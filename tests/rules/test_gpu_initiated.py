"""What a GPU kernel needs to start transfers itself: a doorbell to ring, and the NIC's queues."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gdrkit.evidence import MissingReason
from gdrkit.facts.commands import PROBE_CUDA
from gdrkit.facts.driver import registry_dwords
from gdrkit.facts.pci import PciGpu
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.verbs_kernel import queues_take_dmabuf
from gdrkit.node import Node
from gdrkit.programs.gpu_initiated import ibgda_cpu_assisted, nic_not_mlx5
from gdrkit.programs.nccl_gin.consumer import NCCL_GIN
from gdrkit.programs.nccl_gin.rules import gin_nics_fused
from gdrkit.programs.nvshmem.consumer import NVSHMEM
from gdrkit.rules.gpu_initiated import (
    gdaki_kernel_too_old,
    ibgda_peer_mapping_denied,
    nic_buffers_not_mappable,
)
from gdrkit.rules.rule import DOORBELL, NIC_QUEUES, VMM, Passed, Rule
from gdrkit.rules.vmm_not_rdma_capable import vmm_not_rdma_capable
from gdrkit.verdict.cells import cells_of
from tests.debian_kernels import KERNELS, module
from tests.memory_host import MemoryHost
from tests.module_builder import build_module
from tests.rules.machines import (
    GPU,
    MODULES,
    Files,
    does_not_apply,
    driver,
    failed,
    installed,
    loaded,
    missing,
    node,
    outcome,
    passes,
    rdma_device,
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


# -- the library's side of the queues ------------------------------------------------------------------


def with_rdma_core(release: int, *parts: Files, running: tuple[str, ...] = ()):
    folder = "usr/lib/x86_64-linux-gnu"
    file = f"libibverbs.so.1.14.{release}.0"
    return node(
        {f"{folder}/{file}": ""}, loaded(*running), *parts, links={f"{folder}/libibverbs.so.1": file}
    )


def test_an_rdma_core_before_43_cannot_register_queues_as_dma_bufs():
    found = failed(with_rdma_core(42), nic_buffers_not_mappable)

    assert found.seen == "rdma-core 42, and nvidia_peermem is not loaded"
    assert nic_buffers_not_mappable.takes(None) == (NIC_QUEUES,)


def test_rdma_core_43_can_and_peermem_serves_in_its_place():
    assert passes(with_rdma_core(43), nic_buffers_not_mappable)
    assert passes(with_rdma_core(39, running=("nvidia_peermem",)), nic_buffers_not_mappable)


def test_without_libibverbs_the_queues_are_the_images_affair_and_unseen_ones_unknown():
    assert does_not_apply(node(), nic_buffers_not_mappable)
    assert missing(node({"proc/modules": ""}, complete=False), nic_buffers_not_mappable)


# -- the NIC itself ------------------------------------------------------------------------------------


def judged_device(machine: Node, check: Callable[[Node, Rule, object], Any]) -> Any:
    (device,) = rdma_devices(machine)
    return check(machine, nic_not_mlx5, device)


def test_a_nic_of_another_driver_serves_no_gpu_kernel():
    found = judged_device(node(rdma_device("bnxt_re0", pci_driver="bnxt_en")), failed)

    assert (found.seen, found.takes) == ("driver bnxt_en", None)
    assert ("gpu-initiated", "nccl-gin") in cells_of(nic_not_mlx5.takes(None))
    assert ("cpu-assisted", "nccl-gin") not in cells_of(nic_not_mlx5.takes(None))


def test_a_renamed_connectx_is_skipped_by_nvshmem_alone():
    machine = node(rdma_device("rocep24s0"))
    named = node(rdma_device("rocep24s0"), {"etc/environment": "NVSHMEM_HCA_PREFIX=rocep\n"})

    assert judged_device(machine, failed).takes == NVSHMEM.own("gpu-initiated", "cpu-assisted")
    assert judged_device(named, passes)
    assert judged_device(node(rdma_device("mlx5_0")), passes)


def test_a_nic_of_unknown_driver_is_unknown():
    device = rdma_device()
    links = {path: target for path, target in device.links.items() if not path.endswith("/driver")}

    found = judged_device(node(MemoryHost(device.files, links=links)), missing)
    assert found.source == "driver of mlx5_0"


# -- asked for -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "running", "taken"),
    [
        ("cpu", ("nvidia", "gdrdrv"), ("gpu-initiated",)),
        ("cpu", ("nvidia",), ("gpu-initiated", "cpu-assisted")),
        ("CPU", ("nvidia",), ("gpu-initiated", "cpu-assisted")),
        ("cpu", (), ("gpu-initiated",)),  # without the driver nothing works
        ("cpu_host_memory", ("nvidia",), ("gpu-initiated",)),
    ],
)
def test_a_job_can_ask_the_cpu_to_ring_the_doorbell(handler: str, running: tuple[str, ...], taken: Any):
    """NVSHMEM refuses `cpu` without GDRCopy, so that IBGDA stops."""
    machine = node(
        {"etc/environment": f"NVSHMEM_IBGDA_NIC_HANDLER={handler}\n"}, loaded(*running), {"dev/gdrdrv": ""}
    )
    found = failed(machine, ibgda_cpu_assisted, "etc/environment")

    assert found.takes == NVSHMEM.own(*taken)


def test_a_setting_of_one_program_takes_nothing_from_the_other():
    machine = node({"etc/nccl.conf": "NCCL_GIN_TYPE=2\n"})

    assert failed(machine, ibgda_cpu_assisted, "etc/nccl.conf").takes == NCCL_GIN.own("gpu-initiated")
    assert does_not_apply(node({"etc/nccl.conf": "NCCL_GIN_TYPE=3\n"}), ibgda_cpu_assisted, "etc/nccl.conf")


def test_a_file_that_was_not_collected_may_ask_for_it():
    assert missing(node(complete=False), ibgda_cpu_assisted, "etc/nccl.conf").source == "etc/nccl.conf"


# -- NICs that NCCL joined -----------------------------------------------------------------------------

LOG = "sos_commands/nccl/job.log"


def with_log(*lines: str):
    return node({LOG: "".join(f"n1:1:1 [0] NCCL INFO {line}\n" for line in lines)})


def test_two_ports_that_nccl_joined_are_not_for_gin():
    machine = with_log(
        "NCCL version 2.30.7+cuda13.0",
        "NET/IB : Made virtual device [4] name=mlx5_0+mlx5_1 speed=400000 ndevs=2",
    )
    found = failed(machine, gin_nics_fused, LOG)

    assert found.seen == "mlx5_0+mlx5_1, of 2 ports"
    assert gin_nics_fused.takes(None) == NCCL_GIN.own("gpu-initiated", "cpu-assisted")


@pytest.mark.parametrize(
    "lines",
    [
        (
            "NCCL version 2.30.7+cuda13.0",
            "NET/IB : Made virtual device [0] name=a speed=400000 ndevs=1",
        ),
        ("NCCL version 2.27.3+cuda12.9", "NET/IB : Made virtual device [4] name=a+b speed=400000 ndevs=2"),
    ],
)
def test_a_device_of_one_port_and_a_release_without_gin_do_not_count(lines: tuple[str, ...]):
    assert does_not_apply(with_log(*lines), gin_nics_fused, LOG)


# -- memory from cuMemCreate ---------------------------------------------------------------------------


def with_attribute(value: int | None):
    calls = [
        {"call": "cuDeviceGetAttribute", "argument": "110", "device": GPU, "result": 0, "value": value},
    ]
    record = {"schema": "gdrkit.probe.cuda/1", "calls": calls}
    metal = {"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse2\n"}
    return node(metal, said={} if value is None else {PROBE_CUDA: json.dumps(record)})


@pytest.mark.parametrize(("value", "asked"), [(0, failed), (1, passes)])
def test_gin_needs_memory_of_cumemcreate_to_be_registrable(value: int, asked: Any):
    assert asked(with_attribute(value), vmm_not_rdma_capable, PciGpu(GPU, "2335"))
    assert cells_of((VMM,)) == {
        (path, "nccl-gin") for path in ("dmabuf", "peermem", "gpu-initiated", "cpu-assisted")
    }


def test_without_a_probe_it_is_as_likely_as_the_product():
    """2335 is an H200, 2bff is of no product in the list, and of a GeForce 4090 nothing is pinned."""
    unasked = with_attribute(None)
    found = outcome(unasked, vmm_not_rdma_capable, PciGpu(GPU, "2335"))

    assert isinstance(found, Passed) and [one.source for one in found.lacking] == ["cuda-attribute-110"]
    assert missing(unasked, vmm_not_rdma_capable, PciGpu(GPU, "2bff")).source == "cuda-attribute-110"
    assert does_not_apply(unasked, vmm_not_rdma_capable, PciGpu(GPU, "2684"))
