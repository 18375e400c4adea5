"""Whether NVIDIA's kernel module allows third parties to map a GPU's memory, by its own answer.

The probe allocates an object of class NV50_THIRD_PARTY_P2P and frees it. libcuda uses such an object to make
memory available to nvidia_p2p_get_pages(), and so to nvidia-peermem.
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import driver_flavour, driver_version
from gdrkit.facts.probe import rm_calls
from gdrkit.node import Node, observation

ALLOC, CLASS = "NV_ESC_RM_ALLOC", "NV50_THIRD_PARTY_P2P"
ASK = "gdr probe rm"

STATUS = {
    0x00: "OK",
    0x1A: "INSUFFICIENT_RESOURCES",
    0x1B: "INSUFFICIENT_PERMISSIONS",
    0x1F: "INVALID_ARGUMENT",
    0x22: "INVALID_CLASS",
    0x33: "INVALID_OBJECT_HANDLE",
    0x36: "INVALID_OBJECT_PARENT",
    0x40: "INVALID_STATE",
    0x51: "NO_MEMORY",
    0x56: "NOT_SUPPORTED",
    0x57: "OBJECT_NOT_FOUND",
    0x59: "OPERATING_SYSTEM",
    0x63: "STATE_IN_USE",
    0xFFFF: "GENERIC",
}
"""NV_STATUS: open-gpu-kernel-modules src/common/sdk/nvidia/inc/nvstatuscodes.h."""

REFUSALS = (0x22, 0x56)
"""Statuses that mean that this GPU does not support the object (thirdpartyp2pConstruct_IMPL) or the
class."""

PROVES = (
    "the kernel module gives this process the object that nvidia_p2p_get_pages() needs; this does not prove"
    " that the product is supported (see CUDA attribute 116), that nvidia-peermem is loaded, or that a NIC"
    " reaches the GPU"
)
"""What a success proves, and what it does not prove."""


class ThirdParty(Struct, frozen=True):
    """The resource manager's answer for one GPU."""

    kind: str  # BAR1, or NVLINK for a GPU whose memory the processor maps
    status: int

    @property
    def word(self) -> str:
        """`NOT_SUPPORTED (0x56)`."""
        return f"{STATUS.get(self.status, 'status')} ({self.status:#x})"


@observation(driver_version, driver_flavour)
def third_party(node: Node, address: str) -> ThirdParty:
    """The last answer for a GPU; a coherent GPU refuses the first kind. Raises EvidenceMissing where the
    probe was not run, or did not reach this object."""
    for call in reversed(rm_calls(node)):
        name, _, kind = call.argument.partition(" ")
        if call.call == ALLOC and name == CLASS and call.subject == address:
            return ThirdParty(kind, call.result)
    raise EvidenceMissing(Missing(f"{CLASS} of {address}", MissingReason.UNDECIDED, ASK))
