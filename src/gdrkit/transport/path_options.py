"""What this machine can do for a GPU and an RDMA device, in gdrkit's own judgement: for programs that ask
before they allocate, and fall back.

The rest of gdrkit judges; it is imported when asked, as a node to which this package was sent lacks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gdrkit.transport.errors import TransportError
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

if TYPE_CHECKING:
    from gdrkit.facts.rdma import Pair
    from gdrkit.node import Node
    from gdrkit.rules.engine import CheckResult
    from gdrkit.verdict.path_state import PathState


class PathReason(NamedTuple):
    """Why a path is usable or not: gdrkit's `code` for the question, its answer, and what that stands on."""

    code: str
    answer: str
    evidence: tuple[str, ...]


class PathOption(NamedTuple):
    """A path, whether it is `usable` ("yes", "no", "unknown"), and the reasons: of a "no" what stops it,
    of an "unknown" what could not be read, of a "yes" each question that was asked.
    """

    name: str
    usable: str
    reasons: tuple[PathReason, ...]


def paths(gpu: int | str, device: str, *, probe: bool = False) -> tuple[PathOption, ...]:
    """The paths between a GPU and an RDMA device of this machine, best first: dmabuf, peermem,
    host-mapped, staged, socket. On a GPU without memory of its own host-mapped is the best that is usable.

    `gpu` is a CUDA ordinal or a PCI address, `device` a name as "mlx5_0" or "mlx5_0:1". "no" is certain
    enough to skip the path (a GPU that CUDA does not give this program has no other answer). What is
    "unknown" is worth a try, as a registration that fails falls to the next path. `probe` asks the drivers
    as well (CUDA, verbs), in a process of their own: that takes up to seconds, and outranks inference.
    Raises TransportError for a GPU or a device that this machine does not have, and where gdrkit's
    judgement is not installed.
    """
    try:
        from gdrkit.evidence.live import LiveHost
        from gdrkit.node import Node
    except ImportError as error:
        raise TransportError(f"only all of gdrkit judges paths, and here is a part of it: {error}") from None
    node = Node(LiveHost(probe))
    try:
        address = cuda().address(gpu) if isinstance(gpu, int) else gpu
        cuda().number("cuDeviceGetByPCIBusId", address.encode())
    except (CudaNotAvailable, CudaError) as error:
        why = PathReason("no-cuda", f"CUDA does not give this program GPU {gpu}", (str(error),))
        return tuple(
            PathOption(choice.name, "no", (why, *(choice.reasons if choice.usable == "no" else ())))
            for choice in judged(node, gpu if isinstance(gpu, str) else "", device)
        )
    return judged(node, address, device)


def judged(node: Node, gpu: str, device: str) -> tuple[PathOption, ...]:
    """As `paths`, of any node: `gpu` is a PCI address, or "" for one that is not there."""
    from gdrkit.consumers.consumer import Path
    from gdrkit.consumers.table import CONSUMERS
    from gdrkit.consumers.verbs import VERBS
    from gdrkit.rules import RULES
    from gdrkit.rules.engine import check_results
    from gdrkit.verdict.matrix import concerns, judgements_at

    pair = _pair(node, gpu, device.partition(":")[0])
    answers = [
        ruling
        for ruling in check_results(node, RULES)
        if ruling.subject is None or concerns(ruling.subject, pair)
    ]
    # A socket is no path of verbs programs: it is judged for the first program that has it.
    sockets = next(consumer.name for consumer in CONSUMERS if Path.SOCKET in consumer.paths)
    cells = [*((path.value, VERBS.name) for path in VERBS.paths), (Path.SOCKET.value, sockets)]
    table = judgements_at(node, answers, [pair], cells)[pair]
    return tuple(
        _choice(node, answers, [judgement for judgement in table if judgement.path == path])
        for path, _ in cells
    )


def _pair(node: Node, gpu: str, device: str) -> Pair:
    """Raises TransportError for what a machine that was looked at does not have."""
    from gdrkit.facts.pci import gpus
    from gdrkit.facts.rdma import Pair, rdma_devices
    from gdrkit.node import if_missing

    pair = Pair(gpu, device)
    # The rules tell what could not be read.
    devices, here = if_missing(((), ()), lambda: (rdma_devices(node), gpus(node)))
    names, addresses = [found.name for found in devices], [found.address for found in here]
    if names and device not in names:
        raise TransportError(f"no RDMA device {device} here (of {', '.join(names)})")
    if addresses and gpu and gpu not in addresses:
        raise TransportError(f"no GPU {gpu} here (of {', '.join(addresses)})")
    return pair


def _choice(node: Node, answers: list[CheckResult], judgements: list[PathState]) -> PathOption:
    """Of a path whose directions differ, the worse: a connection needs both."""
    from gdrkit.rules.rule import Passed
    from gdrkit.verdict.path_state import BEST_FIRST, State, would_block

    worst = max(judgements, key=lambda judgement: BEST_FIRST.index(judgement.state))
    if worst.state in (State.BLOCKED, State.IMPOSSIBLE):
        usable, decisive = "no", worst.blocked_by
    elif worst.state is State.UNKNOWN:
        usable, decisive = "unknown", worst.open
    else:
        usable = "yes"
        decisive = tuple(
            ruling
            for ruling in answers
            if isinstance(ruling.outcome, Passed) and would_block(ruling, worst.path, worst.consumer)
        )
    reasons = (_reason(node, ruling) for ruling in decisive)
    return PathOption(worst.path, usable, tuple(dict.fromkeys(reasons)))


def _reason(node: Node, ruling: CheckResult) -> PathReason:
    from gdrkit.rules.engine import trail_of
    from gdrkit.rules.rule import Failed, Passed, Unknown

    evidence = tuple(
        dict.fromkeys(
            f"{source.name}: {source.text}" if source.text else source.name
            for source in trail_of(node, ruling).sources
        )
    )
    outcome, said = ruling.outcome, ""
    if isinstance(outcome, Failed):
        said = f"{outcome.seen}; expected: {outcome.expected}" if outcome.expected else outcome.seen
    elif isinstance(outcome, Unknown):
        missing = outcome.missing
        said, evidence = f"{missing.why.value}: {missing.source}", (f"ask: {missing.ask}", *evidence)
    elif isinstance(outcome, Passed):
        said = outcome.why
    return PathReason(ruling.rule.code, said, evidence)
