"""What a machine's links and ports let pass between a GPU and its own NIC, and what is left where no direct
path is open.

Encodings: PCI Express Base 6.0, 4.2.1. A packet of 256 bytes of payload has at least 20 bytes more: a header
of 12, and 8 of sequence number, LCRC and framing: 2.2.1, 3.6.2 and 4.2.2. What NCCL does without a direct
path: its transport/net.cc copies through host memory, and net_socket.cc is what is left without RDMA."""

from __future__ import annotations

from typing import NamedTuple

from machines import health
from machines.distance import own
from machines.hardware import BRIDGES
from machines.machine import Function, Machine
from machines.pci import links

PAYLOAD, LEAST_OVERHEAD = 256, 20
"""Bytes of a packet: config_space.py sets the payload; the overhead is that of a write below 4 GiB."""


class Bound(NamedTuple):
    """What nothing between a GPU and its NIC can exceed."""

    gpu: str
    nic: str
    gb_per_s: float


def bounds(machine: Machine) -> list[Bound]:
    """Each GPU with each of its own NICs whose port is up, where every link between them is known."""
    unknown = machine.virtual or any(nic.part == "EFA" or nic.bond for nic in machine.nics)
    nics = [nic for nic in machine.nics if nic.nic] if machine.rdma_driver_loaded else []
    gpus = [gpu for gpu in machine.gpus if gpu.gpu and not gpu.gpu.coherent and gpu.gpu.kind != "integrated"]
    if unknown or not nics:
        return []
    return [
        Bound(gpu.address, nic.address, _bound(machine, gpu, nic))
        for gpu in gpus
        for nic in own(machine, gpu, nics)
        if nic.state == "ACTIVE" and gpu.answers and nic.answers
    ]


def _bound(machine: Machine, gpu: Function, nic: Function) -> float:
    ours, theirs = (gpu, *machine.chain(gpu)), (nic, *machine.chain(nic))
    passed = [end for end in (*ours, *theirs) if not (end in ours and end in theirs)]
    lower = [end for end in passed if not end.is_bridge or BRIDGES[end.part].kind == "up"]
    assert nic.nic
    port = (nic.rate or nic.nic.gbit_per_s) / 8
    return min([port, *(_link(end) for end in lower)])


def _link(end: Function) -> float:
    speed, lanes = links(end)[0]
    encoding = 0.8 if speed in ("2.5", "5.0") else 128 / 130
    return float(speed) * lanes * encoding / 8 * PAYLOAD / (PAYLOAD + LEAST_OVERHEAD)


def changed(healthy: Machine, machine: Machine) -> list[tuple[Bound, float]]:
    """The pairs whose bound a fault lowered, with the bound that they had."""
    before = {(one.gpu, one.nic): one.gb_per_s for one in bounds(healthy)}
    after = bounds(machine)
    return [(one, was) for one in after if (was := before.get((one.gpu, one.nic), 0)) > one.gb_per_s]


def fallback(machine: Machine) -> str:
    """What NCCL does where no direct path is open: staged, or socket without RDMA; "" if no GPU works, as
    without NVIDIA's driver: cuInit() then fails with CUDA_ERROR_NO_DEVICE, and NCCL has no GPU.

    NCCL's documentation, NCCL_IB_DISABLE and NCCL_NET: without the verbs transport it uses IP sockets. Its
    net_ib takes every verbs device with an active port, one in software as well, but no EFA."""
    off = machine.nccl_conf.get("NCCL_IB_DISABLE") == "1" or machine.nccl_conf.get("NCCL_NET") == "Socket"
    up = any(nic.state == "ACTIVE" and nic.answers and nic.part != "EFA" for nic in machine.nics)
    usable = (machine.rdma_driver_loaded or not any(nic.nic for nic in machine.nics)) and up
    driver = machine.driver is not None and machine.driver.loaded
    if not driver or not any(health.works(gpu) for gpu in machine.gpus):
        return ""
    return "staged" if usable and machine.device_nodes and not off else "socket"
