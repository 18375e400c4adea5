"""Support for GPUDirect RDMA on the NIC's and the GPU's side, from a node's files and probes.

The tests are those that NCCL makes."""

from __future__ import annotations

from msgspec import structs

from gdrkit.evidence import EvidenceMissing
from gdrkit.fabric.nccl.nic import GpuEvidence, NicEvidence, dmabuf, peermem
from gdrkit.fabric.nccl.settings import Settings
from gdrkit.fabric.topology.graph import NcclNet, Net, Topology
from gdrkit.facts.gpu import DMA_BUF_SUPPORTED, GPU_DIRECT_RDMA_SUPPORTED, cuda_attributes
from gdrkit.facts.pci import gpus
from gdrkit.facts.probe import verbs_calls
from gdrkit.messages.errors import UNSUPPORTED
from gdrkit.node import Node, if_missing
from gdrkit.programs.nccl.releases import Release


def nic_evidence(node: Node, rules: Release) -> NicEvidence:
    """Which of the files of nvidia-peermem that this release tests exist, and the dma-buf probes of
    verbs."""
    files = if_missing(None, lambda: frozenset(name for name in rules.peermem_files if node.exists(name)))
    calls = if_missing([], lambda: [call for call in verbs_calls(node) if call.call == "ibv_reg_dmabuf_mr"])
    return NicEvidence(
        files, {call.subject or call.argument: call.result not in UNSUPPORTED for call in calls}
    )


def gpu_evidence(node: Node) -> GpuEvidence:
    """The CUDA attributes of the first GPU, if they were probed."""
    try:
        found = cuda_attributes(node, gpus(node)[0].address)
    except (EvidenceMissing, IndexError):
        return GpuEvidence()

    def is_set(attribute: int) -> bool | None:
        return found[attribute] == 1 if attribute in found else None

    return GpuEvidence(is_set(GPU_DIRECT_RDMA_SUPPORTED), is_set(DMA_BUF_SUPPORTED))


def with_nic_side(topology: Topology, node: Node, rules: Release, given: Settings) -> Topology:
    """The graph, with the NIC's side of each port set if files and probes determine it."""
    nics, gpu = nic_evidence(node, rules), gpu_evidence(node)

    def judged(net: Net) -> Net:
        works = {dmabuf(rules, given, net.device, nics, gpu).works, peermem(rules, nics).works}
        if not net.device or (True not in works and None in works):
            return net
        known = net.nccl or NcclNet()
        return structs.replace(net, nccl=structs.replace(known, gdr="1" if True in works else "0"))

    return structs.replace(topology, nets=tuple(map(judged, topology.nets)))
