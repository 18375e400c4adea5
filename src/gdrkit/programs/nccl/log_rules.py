"""What logs of NCCL show: ranks that differ, peers not reached, lines that only seem to prove a path."""

from __future__ import annotations

from errno import EHOSTUNREACH, ENETUNREACH, ETIMEDOUT
from typing import TYPE_CHECKING

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node, fact
from gdrkit.programs.nccl.diagnostic_records import DiagnosticLine
from gdrkit.programs.nccl.log import COMPARED, JobLog, logs, nccl_log, nccl_logs
from gdrkit.programs.nccl.log_records import (
    Carrier,
    DmabufGpu,
    MixedVersions,
    NetDevice,
    Rings,
    Variable,
    Version,
)
from gdrkit.programs.verbs.perftest_log import FOLDER as PERFTEST
from gdrkit.programs.verbs.perftest_log import perftest_run, runs
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import (
    SHOWN_BY_MESSAGES,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    Status,
    rule,
    the_node,
)

if TYPE_CHECKING:
    from gdrkit.programs.nccl.diagnostic_statements import Diagnostics


@rule(
    "env-differs-between-ranks",
    Layer.APPLICATION,
    per=the_node,
    default_status=Status.WARNING,
    cost="One side uses the direct path and the other does not: slow, uneven, and at some sizes only.",
    references=("https://github.com/NVIDIA/nccl-tests/issues/350",),
)
def env_differs_between_ranks(node: Node, _: str) -> Outcome:
    """Ranks of one job run with different NCCL settings.

    Cost: The slower side sets the pace; a mismatch of protocol or buffer settings can make the job hang.

    How to tell: Lines `NCCL_... set by environment to` show different values, or some of the ranks that
    print such lines lack one. NCCL 2.31.2 and newer compare all variables of all ranks with
    `NCCL_RUN_RAS_DIAGNOSTICS=1`, set for rank 0: `NCCL environment: mismatch` names the variable, and the
    lines after it name values and ranks. It compares environments, not nccl.conf.

    What to do: Forward the same environment to all ranks: `mpirun -x NCCL_NET_GDR_LEVEL`,
    `srun --export=ALL`.

    Why: The launcher does not forward the environment to remote nodes (mpirun needs -x for each variable),
    or only some nodes have an /etc/nccl.conf.

    Source: NCCL src/param.cc, which prints what it takes; src/ras/diagnostics_env.cc; nccl-tests issue 350.
    """
    for log in nccl_logs(node):
        if (differs := _in_diagnostics(node, log)) is not None:
            return differs
    ranks = _settings_by_rank(node)
    if len(ranks) < 2:
        if any(_compared_by_nccl(node, log) for log in nccl_logs(node)):
            return Passed("NCCL compared the environments of all ranks")
        return NotApplicable("no log with two or more ranks")
    for name in COMPARED:
        values = {rank: settings.get(name, "") for rank, settings in ranks.items()}
        if len(set(values.values())) > 1:
            (one, a), (other, b) = _two_different(values)
            return Failed(
                seen=f"{name} is {a or 'unset'} on {one}, {b or 'unset'} on {other}",
                expected="one value on all ranks",
                subject=name,
            )
    return Passed(f"{len(ranks)} ranks agree")


@fact
def report_of(node: Node, path: str) -> Diagnostics | None:
    """What the reports of NCCL's diagnostics in a log show; None if it has none."""
    from gdrkit.programs.nccl.diagnostics import diagnostics  # only logs of a job need it

    return diagnostics(nccl_log(node, path).records)


def _in_diagnostics(node: Node, log: JobLog) -> Failed | None:
    """The first variable that a report of NCCL's diagnostics shows to differ, and that decides about the
    direct path."""
    from gdrkit.programs.nccl.diagnostic_statements import Effect

    found = report_of(node, log.path)
    for one in found.of(Effect.CAUSE) if found else ():
        if one.codes == ("env-differs-between-ranks",):
            node.mark(log.path, one.line)
            return Failed(
                seen=one.text, expected="one value on all ranks", subject=one.text.partition(" ")[0]
            )
    return None


def _compared_by_nccl(node: Node, log: JobLog) -> bool:
    """Whether NCCL's diagnostics compared the environments, and found no difference."""
    from gdrkit.programs.nccl.diagnostic_environment import CHECK

    for line in log.all(DiagnosticLine):
        if line.record.check == CHECK and line.record.ok:
            node.mark(log.path, line.line)
            return True
    return False


def _settings_by_rank(node: Node) -> dict[str, dict[str, str]]:
    """The settings of each rank that printed any. Logs with one rank each are combined."""
    every: dict[str, dict[str, str]] = {}
    several: list[dict[str, dict[str, str]]] = []
    for log in nccl_logs(node):
        ranks: dict[str, dict[str, str]] = {}
        for found in log.all(Variable):
            variable = found.record
            if variable.resolved:
                ranks.setdefault(found.process or log.path, {}).setdefault(variable.name, variable.value)
        if len(ranks) > 1:
            several.append(ranks)
        every |= ranks
    return several[0] if several else every


def _two_different(values: dict[str, str]) -> tuple[tuple[str, str], tuple[str, str]]:
    first = next(iter(values.items()))
    return first, next(item for item in values.items() if item[1] != first[1])


@rule(
    "versions-differ-between-ranks",
    Layer.APPLICATION,
    per=the_node,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("NCCL_DEBUG=VERSION, set for all ranks", "two versions of NCCL"),),
    cost="NCCL refuses to start, or ranks decide differently about the direct path.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def versions_differ_between_ranks(node: Node, _: str) -> Outcome:
    """Ranks of one job load different versions of NCCL.

    Cost: Versions differ in what they accept for GPUDirect RDMA, so that the direct path is on for one side
    only.

    How to tell: The log has `Mismatched NCCL version detected` (from 2.23.4 on), or lines with two different
    NCCL versions.

    What to do: Use one image for all ranks. To see the version, run
    `python -c "import torch; print(torch.cuda.nccl.version())"` on each node.

    Why: The images or environments differ between nodes. PyTorch includes its own NCCL; a program can load
    another version than the one that it was built with.

    Source: NCCL src/init.cc and src/bootstrap.cc, the check of peers' versions.
    """
    job_logs = tuple(nccl_logs(node))
    if not job_logs:
        return NotApplicable("no NCCL log was given for this node")
    for log in job_logs:
        for mixed in log.all(MixedVersions):
            where = node.describe_line(log.path, mixed.line)
            return Failed(seen=mixed.record.text, expected="one version", subject=where)
        distinct = {found.record.text: found.line for found in reversed(log.all(Version))}
        if len(distinct) > 1:
            return Failed(
                seen=f"NCCL {' and '.join(sorted(distinct))} in {node.describe_line(log.path)}",
                expected="one version",
                subject=node.describe_line(log.path, max(distinct.values())),
            )
    return Passed("one version in each log")


@rule(
    "gpu-shared-by-ranks",
    Layer.APPLICATION,
    per=the_node,
    reported_by=(
        DecidingCommand("env | grep -E 'CUDA_VISIBLE|LOCAL_RANK', in each rank", "one GPU in two ranks"),
    ),
    cost="NCCL stops before it uses the network.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/usage/communicators.html",),
)
def gpu_shared_by_ranks(node: Node, _: str) -> Outcome:
    """Two ranks use the same GPU, which NCCL does not allow.

    Cost: The job stops with `ncclInvalidUsage`. GPUDirect RDMA has no part in it.

    How to tell: NCCL warns `Duplicate GPU detected : rank A and rank B both on CUDA device X`.

    What to do: Give each rank its own GPU: set CUDA_VISIBLE_DEVICES for each process, or call
    `torch.cuda.set_device(local_rank)`, which is cudaSetDevice(), before the first use of CUDA. Start no
    more ranks on a host than it has GPUs.

    Why: The launcher started more ranks than GPUs, each rank took the first GPU, or two containers of the
    job see the same GPU.

    Source: NVIDIA/nccl src/init.cc, initTransportsRank().
    """
    return SHOWN_BY_MESSAGES


UNREACHED = (ETIMEDOUT, ENETUNREACH, EHOSTUNREACH)
"""Why an address does not resolve: Linux drivers/infiniband/core/addr.c."""


GUIDE = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"


@rule(
    "rail-unreachable",
    Layer.APPLICATION,
    per=logs,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            "ping -I INTERFACE ADDRESS", "no answer from the peer over the interface of this NIC"
        ),
    ),
    cost="The job stops after about a minute of retries. The direct path is not the cause.",
    references=(f"{GUIDE}#nccl-cross-nic", f"{GUIDE}#nccl-ib-hca"),
)
def rail_unreachable(node: Node, path: str) -> Outcome:
    """A NIC does not reach the address of the peer's NIC.

    Cost: The job stops at its first connection. NCCL 2.24.3 and newer retry for about a minute before, so
    that the start seems to hang.

    How to tell: The log says `Call to ibv_modify_qp failed with 110 Connection timed out`, from INIT to RTR,
    with both GIDs: addresses of two subnets. `ping -I INTERFACE ADDRESS` from this NIC's interface to the
    peer's address gets no answer. Without both GIDs, or with one that begins with fe80, the GID index may be
    wrong instead: see gid-index-wrong. If NCCL says `retrying` and then goes on, nothing failed.

    What to do: Compare the subnets of both GIDs.

    - Rails without a route between them: `NCCL_CROSS_NIC=0` keeps each channel on one rail. List the NICs
      in the same order on every node (`NCCL_IB_HCA`); a NIC in the middle of the list that only one node has
      moves all after it to another rail.
    - Two DGX Sparks: one cable is two devices (`rocep1s0f0` and `roceP2p1s0f0`), and both belong into
      `NCCL_IB_HCA`. In netplan, give the interface of each a static address in a subnet of its own, the
      same subnet at both ends: `192.168.100.10/24` and `192.168.101.10/24` here, `.11` there. Link-local
      addresses (169.254.x.x) put both devices into one subnet. Test each, from its interface to the
      peer's: `ping -I INTERFACE ADDRESS`.
    - Cables that connect port 0 with port 1, as in a ring of three nodes: `NCCL_IB_SUBNET_AWARE_ROUTING=1`
      (NCCL 2.30.7 and newer) chooses a port in the peer's subnet; with it set `NCCL_IB_MERGE_NICS=0`.
    - Bootstrap is another connection: `NCCL_SOCKET_IFNAME` names one interface over which all nodes reach
      each other: between two DGX Sparks that of the cable, or `enP7s7` if a network joins them.

    `gdr config nccl-env` writes these settings for a node, each with its reason.

    Why: NCCL connects NICs by their number. Where rails or cables are networks of their own, a NIC only
    reaches the NIC on the same rail, and the kernel cannot resolve the other address.

    Source: NCCL src/misc/ibvwrap.cc, wrap_ibv_modify_qp(); src/graph/search.cc, NCCL_CROSS_NIC;
    github.com/NVIDIA/nccl/issues/2013 and 769; github.com/NVIDIA/dgx-spark-playbooks.
    """
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    found = next(filter(None, (log.failure("ibv_modify_qp", number) for number in UNREACHED)), None)
    if found is None:
        return Passed("no such failure")
    if not found.record.routable:
        raise EvidenceMissing(Missing("the GIDs of both ends", MissingReason.UNDECIDED, "show_gids"))
    on = f" on {found.record.device}" if found.record.device else ""
    return Failed(
        seen=f"ibv_modify_qp failed with {found.record.number}{on}: {found.record.text}",
        expected="the peer's address resolves from this NIC",
        subject=node.describe_line(path, found.line),
    )


RETRY_EXCEEDED = 12
"""IBV_WC_RETRY_EXC_ERR: rdma-core libibverbs/verbs.h, enum ibv_wc_status."""


@rule(
    "retry-exceeded",
    Layer.APPLICATION,
    per=logs,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("rdma statistic show", "counters of lost or repeated packets that grow"),),
    cost="The job fails. The direct path is not the cause.",
    references=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
)
def retry_exceeded(node: Node, path: str) -> Outcome:
    """The peer did not acknowledge packets within the timeout and the retries.

    Cost: The job fails.

    How to tell: The log shows a work completion with status 12 (IBV_WC_RETRY_EXC_ERR), on mlx5 with vendor
    error 129. NCCL prints these numbers in decimal, UCX in hexadecimal: `vend 0x81` is 129.

    What to do: Find the first error of all ranks, then check the port counters at both ends. A longer
    NCCL_IB_TIMEOUT only hides congestion; status 4 (vendor error 81, in UCX 0x51) would point to ACS or an
    IOMMU. If the line has GIDs that begin with `fe80` (NCCL prints them for RoCE alone), find the INDEX of
    RoCE v2, IPv4 (`show_gids`), test it by `ib_write_bw -d DEVICE -x INDEX`; set NCCL_IB_GID_INDEX to it.

    Why: Packets are lost in the fabric (no flow control on RoCE, a wrong GID or VLAN, a dirty cable), or the
    peer died: its own log has the first error. Status 5 in other ranks is a consequence.

    Source: rdma-core libibverbs/verbs.h; NCCL transport/net_ib.cc; UCX uct/ib/mlx5/ib_mlx5_log.c.
    """
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    found = log.failure("completion", RETRY_EXCEEDED)
    if found is None:
        return Passed("no such completion")
    return Failed(
        seen=f"completion status {RETRY_EXCEEDED}, vendor error {found.record.vendor_error}",
        expected="no such completion",
        subject=node.describe_line(path, found.line),
    )


@rule(
    "proof-misread",
    Layer.APPLICATION,
    per=lambda node: (*logs(node), *runs(node)),
    cost="The direct path is believed to be in use, but this text does not show it.",
    references=("https://github.com/NVIDIA/nccl-tests/issues/245",),
)
def proof_misread(node: Node, path: str) -> Outcome:
    """This text looks like proof of GPUDirect RDMA, but is not.

    Cost: None by itself.

    How to tell: The log has `DMA-BUF is available on GPU device`, `GPU Direct RDMA Enabled for HCA` or
    `GDR 1`, but its channel lines over the network lack `/GDRDMA`, or it has no such lines. Or the text is
    from a perftest run with --use_cuda on an integrated GPU, where perftest allocates host memory.

    What to do: Run the job with `NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET` on two nodes and read the
    channel lines.

    Why: Each of these lines is about one side only: the first about the GPU, the second about the NIC.
    `GDR 1` is also printed by a job without any network. Only `via NET/IB/0/GDRDMA` on a channel line shows
    that GPU memory is registered, separately for each direction.

    Source: NCCL src/transport/net.cc and src/transport/generic.cc; perftest src/cuda_memory.c.
    """
    if path.startswith(PERFTEST):
        return _perftest(node, path)
    try:
        log = nccl_log(node, path)
    except EvidenceMissing:
        return NotApplicable("not an NCCL log")
    claimed = _claim(log)
    if claimed is None:
        return NotApplicable("the log has no line that is mistaken for proof")
    claim, line = claimed
    legs = log.legs
    if any(leg.record.via.carried is Carrier.DIRECT for leg in legs):
        return Passed("channel lines with /GDRDMA")
    how = "through TCP or host memory" if any(leg.record.via.gdr for leg in legs) else "without /GDRDMA"
    seen = f"and {len(legs)} channel lines {how}" if legs else "and no channel line over a network"
    node.mark(path, line)
    return Failed(seen=f"{claim}, {seen}", expected="via NET/.../GDRDMA", subject=node.describe_line(path))


def _claim(log: JobLog) -> tuple[str, int] | None:
    """The text that is mistaken for proof and the number of its line; None if there is none."""
    for gpu in log.all(DmabufGpu):
        return gpu.record.text, gpu.line
    for device in log.all(NetDevice):
        nic = device.record
        if nic.enabled:
            network = f"{nic.network} ({nic.how})" if nic.how else nic.network
            return f"NET/{network}: enabled for HCA {nic.device}", device.line
    for rings in log.all(Rings):
        if rings.record.gdr:
            return f"Connected all rings, use ring PXN {rings.record.pxn:d} GDR 1", rings.line
    return None


def _perftest(node: Node, path: str) -> Outcome:
    try:
        run = perftest_run(node, path)
    except EvidenceMissing:
        return NotApplicable("not a perftest output")
    if not (run.integrated_gpu and run.bandwidth_shown):
        return NotApplicable("no run on an integrated GPU")
    node.mark(path, run.integrated_line)
    return Failed(
        seen="CUDA device integrated: 1, and a result",
        expected="a run on a GPU with memory of its own",
        subject=node.describe_line(path),
    )
