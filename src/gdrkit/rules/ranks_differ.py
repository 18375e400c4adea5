"""Ranks of one job that do not agree."""

from __future__ import annotations

from gdrkit.facts.nccl_log import COMPARED, nccl_logs
from gdrkit.messages.nccl_records import MixedVersions, Variable, Version
from gdrkit.node import Node
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule, the_node


@rule(
    "env-differs-between-ranks",
    Layer.APPLICATION,
    per=the_node,
    default_status=Status.WARNING,
    cost="One side goes direct and the other does not: slow, uneven, and at some sizes only.",
    references=("https://github.com/NVIDIA/nccl-tests/issues/350",),
)
def env_differs_between_ranks(node: Node, _: str) -> Outcome:
    """Ranks of one job run with different settings of NCCL.

    Cost: The slower side sets the pace; a mismatch of protocol or buffer settings can hang.

    How to tell: Lines `NCCL_... set by environment to` with different values, or in some ranks only, among
    the ranks that print such lines at all.

    What to do: Forward the same environment everywhere: `mpirun -x NCCL_NET_GDR_LEVEL`, `srun --export=ALL`.

    Why: The launcher does not forward the environment to remote nodes (mpirun needs -x for each variable),
    or an /etc/nccl.conf is on some nodes only.

    Source: NCCL src/param.cc, which prints what it takes; nccl-tests issue 350.
    """
    ranks = _settings_by_rank(node)
    if len(ranks) < 2:
        return NotApplicable("no log of two ranks or more")
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
    """What each rank printed, of those that printed any setting. Logs of one rank each belong together."""
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
    cost="NCCL refuses to start, or ranks decide differently about the direct path.",
    references=("https://docs.nvidia.com/deeplearning/nccl/release-notes/",),
)
def versions_differ_between_ranks(node: Node, _: str) -> Outcome:
    """Ranks of one job load different versions of NCCL.

    Cost: Versions differ in what they take for GPUDirect RDMA, so that the direct path is on for one side.

    How to tell: `Mismatched NCCL version detected` (from 2.23.4 on), or two version lines in one log.

    What to do: One image for all ranks. `python -c "import torch; print(torch.cuda.nccl.version())"` on
    each node.

    Why: Images or environments are not the same on all nodes. PyTorch brings its own NCCL; what a program
    was built with and what it loads can differ.

    Source: NCCL src/init.cc and src/bootstrap.cc, the check of peers' versions.
    """
    came = tuple(nccl_logs(node))
    if not came:
        return NotApplicable("no log of NCCL came with this node")
    for log in came:
        for mixed in log.all(MixedVersions):
            place = node.describe_line(log.path, mixed.line)
            return Failed(seen=mixed.record.text, expected="one version", subject=place)
        distinct = {found.record.text: found.line for found in reversed(log.all(Version))}
        if len(distinct) > 1:
            return Failed(
                seen=f"NCCL {' and '.join(sorted(distinct))} in {node.describe_line(log.path)}",
                expected="one version",
                subject=node.describe_line(log.path, max(distinct.values())),
            )
    return Passed("one version in each log")
