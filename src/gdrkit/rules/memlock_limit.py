"""The limit on memory that a process may lock."""

from __future__ import annotations

from gdrkit.facts.libraries import memlock_limit_bytes
from gdrkit.facts.rdma import rdma_devices
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node

KERNEL_DEFAULT_BYTES = 8 << 20
"""MLOCK_LIMIT of Linux 5.16 and newer, include/uapi/linux/resource.h; 64 KiB before. NCCL's receive buffers
alone have 4 MiB per connection (NCCL_BUFFSIZE), so the default is too little for any job."""


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

    Cost: NCCL, UCX and perftest fail as soon as they register more, also when they copy through host
    memory.

    How to tell: `ulimit -l` in the shell or pod that fails prints 8192 or less, and `Max locked memory` in
    /proc/self/limits is 8 MiB or less. Jobs see `ibv_reg_mr` fail with `Cannot allocate memory` (error 12).

    What to do: Put `* - memlock unlimited` in a file in /etc/security/limits.d/. Set LimitMEMLOCK=infinity
    in the units of slurmd, containerd or docker. In Kubernetes, give the pod the capability IPC_LOCK. Then
    log in again or restart the service.

    Why: RLIMIT_MEMLOCK was never raised. Memory that is registered for RDMA counts against it; root and
    processes with CAP_IPC_LOCK are exempt. Daemons that start jobs (slurmd, containerd) pass on their own
    limit, which can differ from the shell's.

    Source: Linux drivers/infiniband/core/umem.c, ib_umem_get(); limits.conf(5).
    """
    if _has_no_rdma(node):
        return NotApplicable("no RDMA device")
    limit = memlock_limit_bytes(node)
    if limit is None:
        return Passed("unlimited")
    if limit > KERNEL_DEFAULT_BYTES:
        return Passed(f"{limit >> 20} MiB")
    return Failed(seen=f"{limit >> 10} KiB", expected="unlimited", subject="RLIMIT_MEMLOCK")


def _has_no_rdma(node: Node) -> bool:
    """Whether the node has no RDMA device. False if that is not known: the limit still matters."""
    return if_missing(False, lambda: not rdma_devices(node))
