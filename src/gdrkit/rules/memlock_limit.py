"""The limit on memory that a process may lock."""

from __future__ import annotations

from gdrkit.facts.libraries import memlock_ceiling_bytes, memlock_limit_bytes, unlimited_logins
from gdrkit.facts.rdma import rdma_devices
from gdrkit.facts.virtual import IPC_LOCK, SYS_RESOURCE, has_capability, scope
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import REGISTRATION
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node

KERNEL_DEFAULT_BYTES = 8 << 20
"""MLOCK_LIMIT of Linux 5.16 and newer, include/uapi/linux/resource.h; 64 KiB before. NCCL's receive buffers
alone have 4 MiB per connection (NCCL_BUFFSIZE), so the default is too little for any job."""
OLD_DEFAULT_BYTES = 64 << 10
"""The default before, which container runtimes still pass on. The rings of a few queues fill it."""


@rule(
    "memlock-limit",
    Layer.RDMA,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("ulimit -l", "a number, not `unlimited`, in the shell or pod that fails"),),
    remedies=(RemedyName.RAISE_MEMLOCK,),
    cost="Registering memory fails with ENOMEM for processes without CAP_IPC_LOCK, on every path.",
    references=(
        "https://man7.org/linux/man-pages/man2/getrlimit.2.html",
        "https://slurm.schedmd.com/faq.html#memlock",
    ),
)
def memlock_limit(node: Node, _: str) -> Outcome:
    """Processes may lock no more memory than the kernel's default, which is too little for RDMA.

    Cost: NCCL, UCX and perftest fail as soon as they register more, also if they copy through the host.

    How to tell: `ulimit -l` in the shell or pod that fails prints 8192 or less, and `Max locked memory` in
    /proc/self/limits is 8 MiB or less. Jobs see `ibv_reg_mr` fail with `Cannot allocate memory` (error 12).

    A container keeps the limit and the capabilities that it was started with: 64 KiB without CAP_IPC_LOCK
    (bit 14 of CapEff in /proc/self/status), if it cannot raise them, blocks all that registers memory in it.

    What to do: On a host, put `* - memlock unlimited` and `root - memlock unlimited` in a file in
    /etc/security/limits.d/, and LimitMEMLOCK=infinity in the units that start jobs: slurmd, LSF's sbatchd,
    PBS's pbs_mom, containerd. Then log in again, and restart these units: what runs keeps its limit. Start
    a container with `--ulimit memlock=-1` or `--cap-add IPC_LOCK`.

    In a pod: add the capability IPC_LOCK and run as root, as `gdr config container --form kubernetes` writes
    it, or set LimitMEMLOCK=infinity in the unit of containerd. /etc/security does nothing for pods.

    In a job of Slurm: the limit is that of the shell that submits it, and at most the hard limit of slurmd:
    put `PropagateResourceLimitsExcept=MEMLOCK` in slurm.conf, in place of any `PropagateResourceLimits`,
    and LimitMEMLOCK=infinity in the unit of slurmd, and restart slurmctld and slurmd. Or raise the limit of
    logins where jobs are submitted, too. For one job, `srun --propagate=NONE` leaves that shell's out.

    Why: RLIMIT_MEMLOCK was never raised. Host memory that is registered for RDMA counts against it, and so
    do the rings of queue pairs and completion queues, without which no program starts; processes with
    CAP_IPC_LOCK are exempt. A dma-buf of GPU memory does not count, but every program registers host memory
    as well. A daemon that starts containers passes on its own limit, which can differ from the shell's.

    Source: Linux drivers/infiniband/core/umem.c, ib_umem_get(), and umem_dmabuf.c; drivers/infiniband/hw/
    mlx5/cq.c, create_cq_user(); capabilities(7); limits.conf(5); slurm.conf(5).
    """
    if _has_no_rdma(node):
        return NotApplicable("no RDMA device")
    limit = memlock_limit_bytes(node)
    if limit is None:
        return Passed("unlimited")
    if limit > KERNEL_DEFAULT_BYTES:
        return Passed(f"{limit >> 20} MiB")
    inside = if_missing("host", scope, node) == "container"
    if inside and if_missing(False, has_capability, node, IPC_LOCK):
        return Passed(f"{limit >> 10} KiB, but the container has CAP_IPC_LOCK")
    is_final = inside and limit <= OLD_DEFAULT_BYTES and if_missing(False, _is_final, node)
    return Failed(
        seen=f"{limit >> 10} KiB" + " in this container, without CAP_IPC_LOCK" * is_final,
        expected="unlimited" + ", or CAP_IPC_LOCK" * is_final,
        subject="RLIMIT_MEMLOCK",
        takes=REGISTRATION if is_final else None,
        advice=_IN_CONTAINER if inside else _on_host(node),
    )


_IN_CONTAINER = (
    "Start the container with `--ulimit memlock=-1` or `--cap-add IPC_LOCK`; in Kubernetes, add IPC_LOCK to "
    "securityContext.capabilities."
)


def _on_host(node: Node) -> str:
    """The page's words without the lines that /etc/security has already."""
    lifted = if_missing(frozenset(), unlimited_logins, node)
    units = "LimitMEMLOCK=infinity in the units that start jobs, such as slurmd and containerd"
    lines = " and ".join(f"`{who} - memlock unlimited`" for who in ("*", "root") if who not in lifted)
    kept = (
        f"Put {lines} in a file in /etc/security/limits.d/, and set {units}." if lines else f"Set {units}."
    )
    return (
        f"{kept} Then log in again, and restart these units: what runs keeps its limit. "
        "In Kubernetes, give the pod the capability IPC_LOCK."
    )


def _is_final(node: Node) -> bool:
    """Whether the process can neither lock more nor raise its limit."""
    ceiling = memlock_ceiling_bytes(node)
    free = has_capability(node, IPC_LOCK) or has_capability(node, SYS_RESOURCE)
    return not free and ceiling is not None and ceiling <= OLD_DEFAULT_BYTES


def _has_no_rdma(node: Node) -> bool:
    """Whether the node has no RDMA device. False if that is not known: the limit still matters."""
    return if_missing(False, lambda: not rdma_devices(node))
