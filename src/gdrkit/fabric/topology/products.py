"""What a saved topology's GPU is as a product, as far as the direct path depends on it."""

from __future__ import annotations

from gdrkit.fabric.topology.graph import Topology, TopologyGpu
from gdrkit.facts import gpu_ids

GB10 = 121
"""Compute capability of the only GPU without its own memory that NCCL's files may show: NVIDIA, "CUDA GPU
Compute Capability"."""


def refusal(topology: Topology, gpu: TopologyGpu) -> str:
    """The code of why this product never does GPUDirect RDMA, by PCI id, name or compute capability; ""
    if it may, or if NCCL found it supported."""
    function = topology.by_address.get(gpu.address)
    device = function.device if function else gpu.device
    integrated = device in gpu_ids.INTEGRATED or gpu_ids.is_integrated_name(gpu.name)
    if gpu.is_integrated or integrated or gpu.compute_capability == GB10:
        return "gpu-integrated"
    consumer = gpu_ids.is_consumer(device) or gpu_ids.is_consumer_name(gpu.name)
    return "gpu-consumer" if gpu.gdr is not True and consumer else ""
