"""The paths that this machine offers for a GPU and an RDMA device, as gdrkit judges them: for programs that
check before they allocate, and fall back.

The judgement needs the rest of gdrkit. It is imported on demand, since a node to which only this package was
sent does not have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gdrkit.transport.errors import TransportError
from gdrkit.transport.native.cuda import CudaError, CudaNotAvailable, cuda

if TYPE_CHECKING:
    from gdrkit.facts.rdma import Pair
    from gdrkit.node import Node
    from gdrkit.verdict.check_results import CheckResult
    from gdrkit.verdict.path_state import PathState


class PathReason(NamedTuple):
    """Why a path is usable or not: the finding `code`, the answer, and its evidence."""

    code: str
    answer: str
    evidence: tuple[str, ...]


class PathOption(NamedTuple):
    """A path, whether it is `usable` ("yes", "no", "unknown"), and the reasons: for "no" what blocks it, for
    "unknown" what could not be read, for "yes" each check that passed.
    """

    name: str
    usable: str
    reasons: tuple[PathReason, ...]


def paths(gpu: int | str, device: str, *, probe: bool = False) -> tuple[PathOption, ...]:
    """The paths between a GPU and an RDMA device of this machine, best first: dmabuf, peermem,
    host-mapped, staged, socket. For a GPU without its own memory host-mapped is the best usable path.

    `gpu` is a CUDA ordinal or a PCI address, `device` a name such as "mlx5_0" or "mlx5_0:1". "no" is
    certain enough to skip the path; if this program cannot see the GPU through CUDA, every path is "no".
    An "unknown" path is worth a try: if the registration fails, the next path is used. `probe` also asks
    the drivers (CUDA, verbs) in separate processes; that takes up to seconds, and the answers take
    precedence over inference. Raises TransportError for a GPU or a device that this machine does not have,
    and if only a part of gdrkit is installed.
    """
    try:
        from gdrkit.evidence.live import LiveHost
        from gdrkit.node import Node
    except ImportError as error:
        raise TransportError(f"judging paths needs a complete gdrkit installation: {error}") from None
    node = Node(LiveHost(probe))
    try:
        address = cuda().address(gpu) if isinstance(gpu, int) else gpu
        cuda().number("cuDeviceGetByPCIBusId", address.encode())
    except (CudaNotAvailable, CudaError) as error:
        why = PathReason("no-cuda", f"CUDA does not show GPU {gpu} to this program", (str(error),))
        return tuple(
            PathOption(choice.name, "no", (why, *(choice.reasons if choice.usable == "no" else ())))
            for choice in judged(node, gpu if isinstance(gpu, str) else "", device)
        )
    return judged(node, address, device)


def judged(node: Node, gpu: str, device: str) -> tuple[PathOption, ...]:
    """As `paths`, for any node: `gpu` is a PCI address, or "" for a GPU that is not present."""
    from gdrkit.catalogue import every_consumer, every_rule
    from gdrkit.programs.verbs.consumer import VERBS
    from gdrkit.rules.capabilities import Path
    from gdrkit.verdict.check_results import check_results
    from gdrkit.verdict.matrix import concerns, path_states_at

    pair = _pair(node, gpu, device.partition(":")[0])
    answers = [
        result
        for result in check_results(node, every_rule())
        if result.subject is None or concerns(result.subject, pair)
    ]
    # Verbs programs have no socket path, so it is judged for the first program that has one.
    sockets = next(consumer.name for consumer in every_consumer() if Path.SOCKET in consumer.paths)
    cells = [*((path.value, VERBS.name) for path in VERBS.paths), (Path.SOCKET.value, sockets)]
    table = path_states_at(node, answers, [pair], cells)[pair]
    return tuple(
        _choice(node, answers, [state for state in table if state.path == path]) for path, _ in cells
    )


def _pair(node: Node, gpu: str, device: str) -> Pair:
    """The GPU and the device. Raises TransportError if the evidence shows that one does not exist."""
    from gdrkit.facts.pci import gpus
    from gdrkit.facts.rdma import Pair, rdma_devices
    from gdrkit.node import if_missing

    pair = Pair(gpu, device)
    # The rules report what could not be read.
    devices, here = if_missing(((), ()), lambda: (rdma_devices(node), gpus(node)))
    names, addresses = [found.name for found in devices], [found.address for found in here]
    if names and device not in names:
        raise TransportError(f"no such RDMA device: {device} (of {', '.join(names)})")
    if addresses and gpu and gpu not in addresses:
        raise TransportError(f"no such GPU: {gpu} (of {', '.join(addresses)})")
    return pair


def _choice(node: Node, answers: list[CheckResult], states: list[PathState]) -> PathOption:
    """The path's worse direction: a connection needs both."""
    from gdrkit.rules.rule import Passed
    from gdrkit.verdict.path_state import BEST_FIRST, State, would_block

    worst = max(states, key=lambda path: BEST_FIRST.index(path.state))
    if worst.state in (State.BLOCKED, State.IMPOSSIBLE):
        usable, decisive = "no", worst.blocked_by
    elif worst.state is State.UNKNOWN:
        usable, decisive = "unknown", worst.open
    else:
        usable = "yes"
        decisive = tuple(
            result
            for result in answers
            if isinstance(result.outcome, Passed) and would_block(result, worst.path, worst.consumer)
        )
    reasons = (_reason(node, result) for result in decisive)
    return PathOption(worst.path, usable, tuple(dict.fromkeys(reasons)))


def _reason(node: Node, result: CheckResult) -> PathReason:
    from gdrkit.rules.rule import Failed, Passed, Unknown
    from gdrkit.verdict.check_results import trail_of

    evidence = tuple(
        dict.fromkeys(
            f"{source.name}: {source.text}" if source.text else source.name
            for source in trail_of(node, result).sources
        )
    )
    outcome, answer = result.outcome, ""
    if isinstance(outcome, Failed):
        answer = f"{outcome.seen}; expected: {outcome.expected}" if outcome.expected else outcome.seen
    elif isinstance(outcome, Unknown):
        missing = outcome.missing
        answer, evidence = f"{missing.why.value}: {missing.source}", (f"ask: {missing.ask}", *evidence)
    elif isinstance(outcome, Passed):
        answer = outcome.why
    return PathReason(result.rule.code, answer, evidence)
