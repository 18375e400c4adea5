"""Memory that the kernel keeps for the next kernel, and that cannot be pinned."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing, MissingReason
from gdrkit.facts.contiguous_memory import MEMINFO, contiguous_memory
from gdrkit.facts.rdma import rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


@rule(
    "memory-held-for-kexec",
    Layer.KERNEL,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("grep Cma /proc/meminfo", "CmaFree larger than CmaTotal"),),
    cost="Registering host memory fails with ENOMEM when most memory is in use.",
    references=("https://github.com/NVIDIA/NV-Kernels/pull/590",),
)
def memory_held_for_kexec(node: Node, _: str) -> Outcome:
    """The kernel keeps memory for a handover to the next kernel, in which nothing can be pinned.

    Cost: `ibv_reg_mr` fails with `Cannot allocate memory` once most of the other memory is in use, as by a
    model on a DGX Spark. NCCL and UCX stop, also when they copy through host memory.

    How to tell: In /proc/meminfo CmaFree is larger than CmaTotal, usually with a CmaTotal of 0. It was seen
    on DGX Spark with the kernel 7.0.0-1019-nvidia and with Ubuntu's 7.0.0-31-generic for arm64, both with
    pages of 4 KiB. `ulimit -l` is unlimited, and the kernel log has no line about it.

    What to do: Add `kho=off` to the kernel command line and reboot, unless kexec handover is used here. Or
    boot the kernel 6.17.0-1032-nvidia.

    Why: Kexec handover (KHO) reserves blocks of pages at boot, and marks them as memory for contiguous
    allocations. Only movable data may be there, so a long-term pin moves its pages elsewhere first, and
    fails where there is no room. The blocks are not in CmaTotal, but their free pages are in CmaFree.

    Source: NVIDIA/NV-Kernels pull requests 590 and 591; NVIDIA/open-gpu-kernel-modules issue 1358;
    MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue 259.
    """
    if if_missing(False, lambda: not rdma_devices(node)):
        return NotApplicable("no RDMA device")
    try:
        found = contiguous_memory(node)
    except EvidenceMissing as error:  # few bundles have it, and few kernels hold memory: it is not suspected
        if error.missing.why not in (
            MissingReason.NOT_COLLECTED,
            MissingReason.ABSENT,
            MissingReason.DENIED,
        ):
            raise
        return Passed("not shown", lacking=(error.missing,))
    if found is None:
        return NotApplicable("the kernel keeps no contiguous memory")
    if found.free <= found.total:
        return Passed(f"CmaFree {found.free} kB of {found.total} kB")
    node.cite(MEMINFO, text="the sign in reports of kernels with handover", confidence=Confidence.LIKELY)
    return Failed(
        seen=f"CmaFree is {found.free} kB, CmaTotal {found.total} kB",
        expected="CmaFree no larger than CmaTotal",
        subject="node",
    )
