"""Ranks of one job with different settings or versions."""

from __future__ import annotations

from gdrkit.facts.nccl_log import COMPARED, nccl_logs
from gdrkit.messages.nccl_records import MixedVersions, Variable, Version
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


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
    print such lines lack one.

    What to do: Forward the same environment to all ranks: `mpirun -x NCCL_NET_GDR_LEVEL`,
    `srun --export=ALL`.

    Why: The launcher does not forward the environment to remote nodes (mpirun needs -x for each variable),
    or only some nodes have an /etc/nccl.conf.

    Source: NCCL src/param.cc, which prints what it takes; nccl-tests issue 350.
    """
    ranks = _settings_by_rank(node)
    if len(ranks) < 2:
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
