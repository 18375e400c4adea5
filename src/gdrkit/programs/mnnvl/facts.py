"""NVLink between hosts: what each GPU is a member of, by `nvidia-smi -q`, and the channels to share memory.

A host alone has the state Completed too, with a cluster of zeros. Source: nvml.h, nvmlGpuFabricInfo_t.
"""

from __future__ import annotations

import re

from msgspec import Struct

from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing

CHANNELS = "dev/nvidia-caps-imex-channels"
_ALONE = regex(r"[0-]+")


class NvlinkFabric(Struct, frozen=True):
    """What a GPU is a member of."""

    state: str  # Not Started, In Progress, Completed
    status: str  # Success, an error, or "" where it is not printed
    clique: str
    cluster: str  # a UUID; "" on a host alone

    @property
    def is_complete(self) -> bool:
        return self.state == "Completed" and self.status in ("Success", "")


@fact
def nvlink_fabric(node: Node, gpu: PciGpu) -> NvlinkFabric | None:
    """The membership of a GPU; None if it is in no fabric.

    Only GPUs with NVLink-C2C are in a fabric between hosts; for others, no program is started."""
    if not is_coherent(node, gpu):
        return None
    from gdrkit.facts.nvidia_smi import printed_field, smi_gpu

    smi = smi_gpu(node, gpu.address)
    state = if_absent(None, printed_field, node, smi, "fabric_state", NVIDIA_SMI)
    if state is None:  # printed as N/A
        return None
    cluster = "" if _ALONE.fullmatch(smi.cluster_uuid or "0") else smi.cluster_uuid or ""
    return NvlinkFabric(str(state), smi.fabric_status or "", smi.clique_id or "", cluster)


@fact
def rack_gpus(node: Node) -> tuple[str, ...]:
    """The addresses of the GPUs that share a fabric with other hosts, or wait for it."""
    found = ((gpu.address, nvlink_fabric(node, gpu)) for gpu in if_missing((), gpus, node))
    return tuple(address for address, one in found if one and (one.cluster or not one.is_complete))


@fact
def imex_channels(node: Node) -> tuple[int, ...]:
    """The numbers of the channels whose device files are there."""
    names = if_absent((), node.list, CHANNELS)
    return tuple(sorted(int(name[7:]) for name in names if re.fullmatch("channel[0-9]{1,6}", name)))
