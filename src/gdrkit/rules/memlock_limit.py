"""How much memory a process may lock."""

from __future__ import annotations

from gdrkit.facts.libraries import memlock_limit_bytes
from gdrkit.facts.rdma import rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node

KERNEL_DEFAULT_BYTES = 8 << 20
"""MLOCK_LIMIT of Linux 5.16 and newer, include/uapi/linux/resource.h; 64 KiB before. NCCL's receive buffers
alone have 4 MiB per connection (NCCL_BUFFSIZE), so what nobody raised is too little for any job."""


@rule(
    "memlock-limit",
    Layer.RDMA,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("ulimit -l", "a number, not `unlimited`, in the shell or pod that fails"),),
    remedies=(RemedyName.RAISE_MEMLOCK,),
    cost="Registering memory fails with ENOMEM for processes without CAP_IPC_LOCK, on every path.",
    references=("https://man7.org/linux/man-pages/man2/getrlimit.2.html",),
)
def memlock_limit(node: Node, _: str) -> Outcome:
    """Processes may lock no more memory than the kernel's default, which is too little for RDMA.

    Cost: NCCL, UCX and perftest fail as soon as they register more, also on the way through host memory.

    How to tell: `Max locked memory` in /proc/self/limits is 8 MiB or less, in a shell like the one that
    asked. Jobs see `ibv_reg_mr` fail with `Cannot allocate memory` (error 12).

    What to do: `* - memlock unlimited` in /etc/security/limits.d/; LimitMEMLOCK=infinity in the units of
    slurmd, containerd or docker; the capability IPC_LOCK in Kubernetes.

    Why: Nobody raised RLIMIT_MEMLOCK. Memory that is registered for RDMA counts against it; root and
    processes with CAP_IPC_LOCK are free of it. Daemons that start jobs (slurmd, containerd) hand down their
    own limit, which can be another than the shell's.

    Source: Linux drivers/infiniband/core/umem.c, ib_umem_get(); limits.conf(5).
    """
    if _has_no_rdma(node):
        return NotApplicable("no RDMA device that memory would be locked for")
    limit = memlock_limit_bytes(node)
    if limit is None:
        return Passed("unlimited")
    if limit > KERNEL_DEFAULT_BYTES:
        return Passed(f"{limit >> 20} MiB")
    return Failed(seen=f"{limit >> 10} KiB", expected="unlimited", subject="RLIMIT_MEMLOCK")


def _has_no_rdma(node: Node) -> bool:
    """Only where the devices are known: without them, the limit is still worth saying."""
    return if_missing(False, lambda: not rdma_devices(node))
