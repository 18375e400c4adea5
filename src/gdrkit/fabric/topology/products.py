"""What a saved topology's GPU is as a product, as far as the direct path depends on it."""

from __future__ import annotations

from typing import NamedTuple

from gdrkit.fabric.topology.graph import Topology, TopologyGpu
from gdrkit.facts import gpu_ids

GB10 = 121
"""Compute capability of the only GPU without its own memory that NCCL's files may show: NVIDIA, "CUDA GPU
Compute Capability"."""


class Refusal(NamedTuple):
    """Why a product never does GPUDirect RDMA, whatever is changed on the machine."""

    code: str
    sentence: str


CONSUMER = Refusal("gpu-consumer", "NVIDIA does not support GPUDirect RDMA on GeForce GPUs")
INTEGRATED = Refusal("gpu-integrated", "this GPU has no memory of its own that a NIC could reach")


def refusal(topology: Topology, gpu: TopologyGpu) -> Refusal | None:
    """Why this product never does GPUDirect RDMA, by PCI id, name or compute capability; None if it may,
    or if NCCL found it supported."""
    function = topology.by_address.get(gpu.address)
    device = function.device if function else gpu.device
    integrated = device in gpu_ids.INTEGRATED or gpu_ids.is_integrated_name(gpu.name)
    if gpu.is_integrated or integrated or gpu.compute_capability == GB10:
        return INTEGRATED
    consumer = gpu_ids.is_consumer(device) or gpu_ids.is_consumer_name(gpu.name)
    return CONSUMER if gpu.gdr is not True and consumer else None


def lasting(topology: Topology, gpu: TopologyGpu) -> str:
    """The sentence of a GPU's refusal; "" without one."""
    refused = refusal(topology, gpu)
    return refused.sentence if refused else ""
