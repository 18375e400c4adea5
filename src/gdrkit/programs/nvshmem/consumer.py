"""NVSHMEM between nodes: its transports ibrc, ibdevx and libfabric, where the CPU posts requests, and IBGDA.

All of them register GPU memory in the same way. IBGDA, where a GPU kernel rings the NIC's doorbell, needs
two more things: see Path.GPU_INITIATED. Where the GPU may not ring it, the CPU does (NIC_HANDLER); where the
NIC's queues cannot be in GPU memory, IBGDA fails, and the job goes on with another transport.
"""

from __future__ import annotations

from gdrkit.facts.peer_memory import MODULE, NV_MEM, NVIDIA_PEERMEM
from gdrkit.programs.consumer import Consumer, PathSupport, RequiredFiles, Switch
from gdrkit.programs.nvshmem.facts import nvshmem_copies
from gdrkit.rules.capabilities import Capability, Path

_GDR = "NVIDIA/nvshmem v3.4.5-0 src/modules/transport/common/transport_ib_common.cpp"
_ENV = "NVIDIA/nvshmem v3.4.5-0 src/modules/transport/common/env_defs.h"


def _is_on(value: str) -> bool:
    """Whether a value counts as true: env_defs_internal.h, nvshmemi_getenv_bool()."""
    return value[:1] not in ("0", "N", "n", "F", "f")


NVSHMEM = Consumer(
    name="nvshmem",
    title="NVSHMEM",
    copies=nvshmem_copies,
    assumed="3.3.9 or newer",
    initiates="IBGDA",
    without="leaves the transport out, and stops if no other one reaches each peer",
    mapped=r"/nvshmem_(?:transport|bootstrap)_",  # PyTorch maps libnvshmem_host without a use
    uses=(
        PathSupport(path=Path.DMABUF),
        PathSupport(
            path=Path.PEERMEM,
            required_files=(
                RequiredFiles(
                    (3, 3, 9),
                    (
                        NV_MEM,
                        NVIDIA_PEERMEM,
                        MODULE,
                    ),
                    f"{_GDR}, nvshmemt_ib_common_nv_peer_mem_available(); the strings of the transports in"
                    " PyPI's nvidia-nvshmem-cu12 3.3.9, 3.3.24 and 3.4.5",
                ),
                RequiredFiles(
                    (0,),
                    (NV_MEM, NVIDIA_PEERMEM),
                    "copies of 2.x to 3.2.5; github.com/deepseek-ai/DeepEP/pull/151 adds the third",
                ),
            ),
        ),
        PathSupport(path=Path.GPU_INITIATED),
        PathSupport(path=Path.CPU_ASSISTED, also=(Capability.NIC_QUEUES,)),
    ),
    switches=(
        Switch(name="NVSHMEM_IB_DISABLE_DMABUF", closes=(Path.DMABUF,), off=_is_on, source=_ENV),
        Switch(
            name="NVSHMEM_IBGDA_NIC_HANDLER",
            closes=(Path.GPU_INITIATED,),
            off=lambda value: "".join(value.split()).lower() in ("cpu", "cpu_host_memory"),
            source="src/modules/transport/ibgda/ibgda.cpp, ibgda_parse_nic_handler_request()",
        ),
    ),
)
