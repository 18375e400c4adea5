"""What CUDA's library says of a GPU: the attributes that a probe asked for."""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.agent.native.cuda_abi import DEVICE_ATTRIBUTES
from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.probe import cuda_calls
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, observation

INTEGRATED = DEVICE_ATTRIBUTES["INTEGRATED"]
MAJOR, MINOR = DEVICE_ATTRIBUTES["COMPUTE_CAPABILITY_MAJOR"], DEVICE_ATTRIBUTES["COMPUTE_CAPABILITY_MINOR"]
GPU_DIRECT_RDMA_SUPPORTED = DEVICE_ATTRIBUTES["GPU_DIRECT_RDMA_SUPPORTED"]
DMA_BUF_SUPPORTED = DEVICE_ATTRIBUTES["DMA_BUF_SUPPORTED"]

ASK_PROBE = "gdr doctor --probe"


@observation(driver_version, driver_flavour)
def cuda_attributes(node: Node, address: str) -> Mapping[int, int]:
    """The attributes of a GPU that libcuda returned, value by number.

    Raises EvidenceMissing where no probe was run, or the probe did not reach this GPU."""
    return _returned(node, address)


@observation(driver_version)
def direct_refused(node: Node, address: str) -> bool:
    """Whether CUDA said that a GPU does not support GPUDirect RDMA: attribute 116 is 0. That is about the
    product and its state, so the other flavour of the same driver does not change it.

    Raises EvidenceMissing as cuda_attributes() does."""
    return _returned(node, address).get(GPU_DIRECT_RDMA_SUPPORTED) == 0


def _returned(node: Node, address: str) -> Mapping[int, int]:
    found = {
        number: c.value
        for c in cuda_calls(node)
        if c.call == "cuDeviceGetAttribute"
        and c.subject == address
        and c.result == 0
        and c.value is not None
        and (number := whole_number(c.argument)) is not None
    }
    if not found:
        raise EvidenceMissing(Missing(f"CUDA attributes of {address}", MissingReason.UNDECIDED, ASK_PROBE))
    return found


def missing_attributes(path: str) -> tuple[Missing, ...]:
    """The CUDA attributes that would make an answer about this path certain."""
    wanted = (GPU_DIRECT_RDMA_SUPPORTED, *((DMA_BUF_SUPPORTED,) if path == "dmabuf" else ()))
    return tuple(
        Missing(f"cuda-attribute-{number}", MissingReason.NOT_COLLECTED, ASK_PROBE) for number in wanted
    )
