"""Defaults for what NCCL detects itself and a source does not show, with a note for each.

NCCL asks the driver for a GPU's generation, and verbs for a port's rate; a tree written by hand or by lspci
has neither. Paths depend only on the tree; decisions also depend on these defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import structs

from gdrkit.fabric.nccl.writer import CLASS_OF
from gdrkit.fabric.topology.graph import (
    C2C,
    NcclNet,
    Net,
    NvLink,
    Role,
    Topology,
    TopologyCpu,
    TopologyGpu,
    TopologySource,
)
from gdrkit.facts import gpu_ids
from gdrkit.facts.gpu_chips import by_device_id
from gdrkit.facts.nvlink import lacks_nvlink

C2C_MBYTE_PER_S, C2C_LINKS = 45_000, 10
"""450 GB/s in each direction: NVIDIA Grace Hopper Superchip architecture whitepaper, NVLink-C2C."""
NVLINKS = 18
"""Of one GPU, Hopper and Blackwell: more than any PCIe link carries."""
NO_LIMIT_GBIT_PER_S = 1600.0
"""More than a NIC's link carries (64 GT/s x16 is 968), so that an unknown port is never the limit."""
SAPPHIRE_RAPIDS = 0x8F  # Linux arch/x86/include/asm/intel-family.h
CAPABILITY = 80
"""For an unknown chip: from 8.0 on NCCL's rules for GPUDirect RDMA are the same."""
ASSUMED_CAPABILITY = "GPUs are of compute capability 8.0 or newer"
ASSUMED_GPUS = "the driver supports GPUDirect RDMA on these GPUs"
ASSUMED_NICS = "NICs support GPUDirect RDMA by nvidia-peermem or dma-buf"


def completed(topology: Topology) -> tuple[Topology, tuple[str, ...]]:
    """A graph with everything that NCCL needs, and the assumptions, a line each.

    Ports without a known PCI function are left out, since their position would be a guess, and functions of
    unknown kind with nothing below: NCCL removes what is neither on the way to a GPU nor to a NIC."""
    assumed: dict[str, None] = {}
    of_nccl = topology.origin in (TopologySource.NCCL_XML, TopologySource.NCCL_LOG)
    placed = tuple(net for net in topology.nets if net.address or of_nccl)
    if _may_have_nvlink(topology):
        assumed["no NVLink between GPUs, where that does not decide (?)"] = None
    gpus = tuple(_gpu(topology, gpu, index, assumed) for index, gpu in enumerate(topology.gpus))
    taken = {net.nccl.dev for net in placed if net.nccl and net.nccl.dev}
    free = (str(n) for n in range(len(placed) + len(taken)) if str(n) not in taken)
    nets = tuple(_net(net, free, assumed) for net in placed)
    cpus = tuple(_cpu(cpu, assumed) for cpu in topology.cpus or (TopologyCpu(numa_node=None),))
    devices = tuple(
        device if device.class_code else structs.replace(device, class_code=CLASS_OF.get(device.role, ""))
        for device in topology.devices
        if device.class_code or device.role is not Role.OTHER
    )
    whole = structs.replace(topology, cpus=cpus, devices=devices, gpus=gpus, nets=nets)
    return whole, tuple(assumed)


def _cpu(cpu: TopologyCpu, assumed: dict[str, None]) -> TopologyCpu:
    """A processor with vendor and model, on which only the bandwidth between sockets depends."""
    if cpu.arch in ("", "x86_64") and not (cpu.arch and cpu.vendor):
        assumed["processors are Intel Sapphire Rapids, for the bandwidth between sockets"] = None
        return structs.replace(cpu, arch="x86_64", vendor="GenuineIntel", family=6, model=SAPPHIRE_RAPIDS)
    return cpu


def with_nvlink(topology: Topology) -> Topology | None:
    """The graph as if NVLink connected all GPUs of which that is not known; None if it is known."""
    open_ones = _may_have_nvlink(topology)
    links = (NvLink("", NVLINKS, "068000"),)
    gpus = (structs.replace(gpu, nvlinks=links) if gpu in open_ones else gpu for gpu in topology.gpus)
    return structs.replace(topology, gpus=tuple(gpus)) if open_ones else None


def _may_have_nvlink(topology: Topology) -> list[TopologyGpu]:
    """The GPUs that NVLink may connect, as far as the source shows. What NCCL wrote shows all NVLinks."""
    if topology.origin is TopologySource.NCCL_XML:
        return []
    functions = topology.by_address
    found = [
        gpu
        for gpu in topology.gpus
        if gpu.nvlinks is None
        and not lacks_nvlink(functions[gpu.address].device if gpu.address in functions else gpu.device)
    ]
    return found if len(found) > 1 else []


def _gpu(topology: Topology, gpu: TopologyGpu, index: int, assumed: dict[str, None]) -> TopologyGpu:
    function = topology.by_address.get(gpu.address)
    device_id = function.device if function else ""
    capability = gpu.compute_capability or by_device_id(device_id)
    if capability is None:
        capability = CAPABILITY
        assumed[ASSUMED_CAPABILITY] = None
    gdr = gpu.gdr
    if gdr is None:
        gdr = not (gpu.is_integrated or device_id in gpu_ids.INTEGRATED or gpu_ids.is_consumer(device_id))
        if gdr:
            assumed[ASSUMED_GPUS] = None
    c2c = gpu.c2c
    if c2c is None and gpu.compute_capability is None and device_id in gpu_ids.COHERENT:
        c2c = C2C(None, None)  # NCCL asks NVML if a file does not describe the GPU: xml.cc
    if c2c is not None and (c2c.mbyte_per_s is None or c2c.count is None):
        c2c = C2C(C2C_MBYTE_PER_S, C2C_LINKS)
        assumed["NVLink-C2C carries 450 GB/s in each direction"] = None
    return structs.replace(
        gpu,
        index=index if gpu.index is None else gpu.index,
        rank=index if gpu.rank is None else gpu.rank,
        compute_capability=capability,
        gdr=gdr,
        c2c=c2c,
    )


def _net(net: Net, free: Iterator[str], assumed: dict[str, None]) -> Net:
    known = net.nccl or NcclNet()
    if not known.gdr:
        assumed[ASSUMED_NICS] = None
    rate = net.rate_gbit_per_s
    if rate is None:
        rate = NO_LIMIT_GBIT_PER_S
        assumed["no port is slower than the link of its NIC, since rates are not known"] = None
    return structs.replace(
        net,
        device=net.device or net.id,
        number=1 if net.number is None else net.number,
        rate_gbit_per_s=rate,
        guid=_guid(net.guid or net.address),
        nccl=structs.replace(
            known,
            dev=known.dev or next(free),
            latency=known.latency or "0",
            maxconn=known.maxconn or "131072",
            gdr=known.gdr or "1",
        ),
    )


def _guid(text: str) -> str:
    """A GUID or an address as NCCL writes a GUID."""
    if text.startswith("0x"):
        return text
    digits = re.sub(r"[^0-9a-f]", "", text.lower())[:16]
    return f"0x{digits.lstrip('0') or '0'}"
