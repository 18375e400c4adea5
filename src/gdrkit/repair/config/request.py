"""What somebody asks of a configuration, and what the node says to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from gdrkit.consumers.names import NAMES
from gdrkit.facts.gpu import is_before_turing, is_coherent, is_integrated
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, RdmaPort, distance, nics, ports
from gdrkit.node import Node, fact, if_missing
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Rule, SettledBy
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.node_state import nearest_pairs
from gdrkit.verdict.path_state import BEST_FIRST, PathState, State, is_permanent

T = TypeVar("T")


class ConfigRequest(Struct, frozen=True, kw_only=True):
    """What is wished. "" and () stand for: not said."""

    node: Node | None = None
    path: str = ""  # dmabuf, peermem
    ofed: str = ""  # network-operator, host
    form: str = ""
    operator_version: str = ""
    ofed_version: str = ""
    driver_version: str = ""
    role: str = "worker"
    interface: str = ""
    parameters: tuple[tuple[str, str, str], ...] = ()  # module, parameter, value


class PathChoice(Struct, frozen=True):
    """The direct path that a text is for, and what that rests on."""

    path: str
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@fact
def verdict(node: Node) -> Verdict:
    """Everything that the rules make of the node, once for all kinds."""
    return judge_node(node)


def ask(request: ConfigRequest, question: Callable[[Node], T]) -> T | None:
    """What the node answers; None without a node, or where its evidence does not tell."""
    if request.node is None:
        return None
    return if_missing(None, question, request.node)


def of_path(node: Node, path: str) -> tuple[PathState, ...]:
    """What the program that leads can make of a path on each GPU at its nearest device."""
    found = verdict(node)
    return tuple(
        judgement
        for pair in nearest_pairs(node, found.matrix)
        for judgement in found.matrix[pair]
        if judgement.path == path and judgement.consumer == NAMES[0]
    )


def state_of(node: Node, path: str) -> State:
    """The state of a path on the node: the worst of its GPUs."""
    return max((j.state for j in of_path(node, path)), key=BEST_FIRST.index, default=State.UNKNOWN)


def blockers_of(node: Node, path: str) -> tuple[Rule, ...]:
    """What blocks a path."""
    return tuple(dict.fromkeys(ruling.rule for j in of_path(node, path) for ruling in j.blocked_by))


def codes_of(node: Node, path: str) -> tuple[str, ...]:
    """What blocks a path, by code."""
    return tuple(rule.code for rule in blockers_of(node, path))


def permanent(node: Node, path: str) -> str:
    """What nothing mends on a path, by code, as words."""
    found = [
        ruling.rule.code
        for j in of_path(node, path)
        for ruling in j.blocked_by
        if is_permanent(ruling, path, j.consumer)
    ]
    return ", ".join(dict.fromkeys(found))


def failed(node: Node, code: str) -> tuple[object, ...]:
    """The subjects for which a rule found its problem."""
    return tuple(
        ruling.subject
        for ruling in verdict(node).check_results
        if ruling.rule.code == code and isinstance(ruling.outcome, Failed)
    )


def asked_for(node: Node, remedy: RemedyName) -> bool:
    """Whether a rule that names a step found its problem."""
    rulings = verdict(node).check_results
    return any(remedy in ruling.rule.remedies and isinstance(ruling.outcome, Failed) for ruling in rulings)


UNSEEN = "open kernel modules, a GPU of Turing or newer, an RDMA stack with dma-buf (gdr doctor tells)"


def choose_declared(request: ConfigRequest) -> PathChoice:
    """The same where an operator or an extension brings the driver: only what the host settles counts."""
    if request.path or request.node is None:
        return choose(request)
    of_the_host = [r for r in blockers_of(request.node, "dmabuf") if r.settled_by is SettledBy.HOST]
    if state_of(request.node, "dmabuf") is State.BLOCKED and not of_the_host:
        return PathChoice("dmabuf")
    return choose(request)


def choose(request: ConfigRequest) -> PathChoice:
    """dma-buf where the node can and nobody wished otherwise; peermem where only that can be had."""
    if request.path:
        return PathChoice(request.path)
    if request.node is None:
        return PathChoice("dmabuf", (UNSEEN,))
    dmabuf, peermem = (state_of(request.node, path) for path in ("dmabuf", "peermem"))
    if dmabuf is State.IMPOSSIBLE and peermem is State.IMPOSSIBLE:
        why = permanent(request.node, "dmabuf")
        return PathChoice("dmabuf", (), (f"GPUDirect RDMA is impossible on this node: {why}",))
    usable = (State.READY, State.ACTIVE)
    if dmabuf is State.IMPOSSIBLE or (peermem in usable and dmabuf not in usable):
        return PathChoice("peermem", (), (f"dma-buf is {dmabuf} on this node: {_because(request.node)}",))
    if dmabuf is State.UNKNOWN:
        return PathChoice("dmabuf", ("dma-buf works here; the evidence does not settle it",))
    if dmabuf is State.BLOCKED:
        return PathChoice("dmabuf", (), (f"still to be mended here: {_because(request.node)}; see gdr fix",))
    return PathChoice("dmabuf")


def _because(node: Node) -> str:
    return ", ".join(codes_of(node, "dmabuf")) or "evidence is missing"


# -- the node's cards --------------------------------------------------------------------------------


def any_gpu(request: ConfigRequest, test: Callable[[Node, PciGpu], bool]) -> bool:
    """Whether a GPU of the node is of some kind; no, if nobody can tell."""

    def looked(node: Node) -> bool:
        return any(test(node, gpu) for gpu in gpus(node))

    return bool(ask(request, looked))


def before_turing(request: ConfigRequest) -> bool:
    return any_gpu(request, is_before_turing)


def coherent(request: ConfigRequest) -> bool:
    return any_gpu(request, is_coherent)


def integrated(request: ConfigRequest) -> bool:
    return any_gpu(request, is_integrated)


@fact
def active_ports(node: Node) -> tuple[RdmaPort, ...]:
    """The active ports of RDMA devices that are hardware."""
    return tuple(
        port for device in nics(node) for port in ports(node, device.name) if port.state == "ACTIVE"
    )


@fact
def nearest(node: Node) -> tuple[tuple[Pair, str], ...]:
    """The pairs that decide, each GPU with its nearest active devices, and their distances."""
    found = []
    for pair in nearest_pairs(node, verdict(node).matrix):
        if pair is not None:
            found.append((pair, distance(node, pair)))
    return tuple(found)
