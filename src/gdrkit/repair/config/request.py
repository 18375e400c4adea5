"""The request for a configuration, and the properties of the node that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from gdrkit.catalogue import consumer_of
from gdrkit.facts.gpu import is_before_turing, is_coherent, is_integrated
from gdrkit.facts.machine import distribution
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, RdmaPort, distance, nics, ports
from gdrkit.facts.virtual import scope
from gdrkit.node import Node, fact, if_missing
from gdrkit.programs.names import ALWAYS, NAMES
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import Failed, Rule, SettledBy
from gdrkit.verdict import Verdict, judge_node
from gdrkit.verdict.cells import programs_of
from gdrkit.verdict.check_results import CheckResult
from gdrkit.verdict.node_state import nearest_pairs
from gdrkit.verdict.path_state import BEST_FIRST, PathState, State, is_permanent

T = TypeVar("T")


class SavedMachine(Struct, frozen=True, kw_only=True):
    """What a saved topology shows of a machine, in place of a node."""

    ports: tuple[RdmaPort, ...] = ()
    nearest: tuple[tuple[Pair, str], ...] = ()  # each GPU's nearest devices, and their distance
    coherent: bool
    integrated: bool


GDR = "/usr/local/bin/gdr"
"""Where `pipx install --global` puts it."""
TEXTFILES = "/var/lib/prometheus/node-exporter"
"""The folder of node-exporter's textfile collector in Debian's package; others have no default."""


class ConfigRequest(Struct, frozen=True, kw_only=True):
    """The user's options. "" and () mean: not given."""

    node: Node | None = None
    saved: SavedMachine | None = None
    path: str = ""  # dmabuf, peermem
    ofed: str = ""  # network-operator, host
    form: str = ""
    operator_version: str = ""
    ofed_version: str = ""
    driver_version: str = ""
    role: str = "worker"
    interface: str = ""
    parameters: tuple[tuple[str, str, str], ...] = ()  # module, parameter, value
    consumer: str = NAMES[0]
    hosts: tuple[str, ...] = ()  # of an IMEX domain
    gdr: str = GDR
    expect: str = ""  # where a file of gdr expect is on the nodes
    drain_on: tuple[str, ...] = ()  # codes that drain a node, too
    textfile_folder: str = TEXTFILES
    part: str = ""  # of a MachineConfig, for one step: acs, memlock, argument-NAME; "" for all
    argument: str = ""  # of the kernel, for such a step


class PathChoice(Struct, frozen=True):
    """The direct path to configure, and the assumptions and notes behind it."""

    path: str
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@fact
def verdict(node: Node) -> Verdict:
    """The verdict on the node, computed once."""
    return judge_node(node)


def ask(request: ConfigRequest, question: Callable[[Node], T]) -> T | None:
    """The node's answer; None without a node, or if evidence is missing."""
    if request.node is None:
        return None
    return if_missing(None, question, request.node)


def path_states(node: Node, path: str) -> tuple[PathState, ...]:
    """The states of a path for the first consumer, for each GPU and its nearest device, without the GPUs
    that can never have it beside others that can."""
    found = verdict(node)
    every = tuple(
        path_state
        for pair in nearest_pairs(node, found.matrix)
        for path_state in found.matrix[pair]
        if path_state.path == path and path_state.consumer == NAMES[0]
    )
    return tuple(one for one in every if one.state is not State.IMPOSSIBLE) or every


def state_of(node: Node, path: str) -> State:
    """The state of a path on the node: the worst of its GPUs."""
    return max(
        (path_state.state for path_state in path_states(node, path)),
        key=BEST_FIRST.index,
        default=State.UNKNOWN,
    )


def blockers_of(node: Node, path: str) -> tuple[Rule, ...]:
    """The rules that block a path."""
    return tuple(
        dict.fromkeys(
            result.rule for path_state in path_states(node, path) for result in path_state.blocked_by
        )
    )


def codes_of(node: Node, path: str) -> tuple[str, ...]:
    """The codes of the rules that block a path."""
    return tuple(rule.code for rule in blockers_of(node, path))


def permanent_blockers(node: Node, path: str) -> str:
    """The codes of permanent blockers of a path, joined by commas."""
    found = [
        result.rule.code
        for path_state in path_states(node, path)
        for result in path_state.blocked_by
        if is_permanent(result, path, path_state.consumer)
    ]
    return ", ".join(dict.fromkeys(found))


def failed_subjects(node: Node, code: str) -> tuple[object, ...]:
    """The subjects for which a rule failed."""
    return tuple(
        result.subject
        for result in verdict(node).check_results
        if result.rule.code == code and isinstance(result.outcome, Failed)
    )


def is_remedy_needed(node: Node, remedy: RemedyName, consumer: str = NAMES[0]) -> bool:
    """Whether a rule with this remedy failed, for this program or for one that is installed."""
    failed = (
        result
        for result in verdict(node).check_results
        if remedy in result.rule.remedies and isinstance(result.outcome, Failed)
    )
    return any(_concerns(node, result, consumer) for result in failed)


def _concerns(node: Node, result: CheckResult, consumer: str) -> bool:
    """Whether a failure is one of a program that matters here; one that closes no path concerns all."""
    closed = programs_of(result.takes)
    matter = (
        name for name in closed if name == consumer or name in ALWAYS or consumer_of(name).installed(node)
    )
    return not closed or any(matter)


def other_system(request: ConfigRequest, systems: frozenset[str]) -> str:
    """The distribution of a node that is known to have another than these, else "". What is read in a
    container is that of an image."""
    found = ask(request, distribution)
    if found is None or found.systems & systems or ask(request, scope) == "container":
        return ""
    return found.name


WITHOUT_NODE = "open kernel modules, Turing or newer GPUs, RDMA stack with dma-buf (check: gdr doctor)"


def choose_declared(request: ConfigRequest) -> PathChoice:
    """Like choose(), but ignores the node's present driver, which an operator or extension replaces."""
    if request.path or request.node is None:
        return choose(request)
    settled_by_host = [r for r in blockers_of(request.node, "dmabuf") if r.settled_by is SettledBy.HOST]
    if state_of(request.node, "dmabuf") is State.BLOCKED and not settled_by_host:
        return PathChoice("dmabuf")
    return choose(request)


def choose(request: ConfigRequest) -> PathChoice:
    """The requested path; else dma-buf, unless only peermem works on the node."""
    if request.path:
        return PathChoice(request.path)
    if request.node is None:
        return PathChoice("dmabuf", (WITHOUT_NODE,))
    dmabuf, peermem = (state_of(request.node, path) for path in ("dmabuf", "peermem"))
    if dmabuf is State.IMPOSSIBLE and peermem is State.IMPOSSIBLE:
        why = permanent_blockers(request.node, "dmabuf")
        return PathChoice("dmabuf", (), (f"GPUDirect RDMA is impossible on this node: {why}",))
    usable = (State.READY, State.ACTIVE)
    if dmabuf is State.IMPOSSIBLE or (peermem in usable and dmabuf not in usable):
        return PathChoice(
            "peermem", (), (f"dma-buf is {dmabuf} on this node: {_blocking_codes(request.node)}",)
        )
    if dmabuf is State.UNKNOWN:
        return PathChoice("dmabuf", ("dma-buf works on this node (evidence is missing)",))
    if dmabuf is State.BLOCKED:
        return PathChoice(
            "dmabuf",
            (),
            (f"dma-buf is still blocked on this node: {_blocking_codes(request.node)}; see gdr fix",),
        )
    return PathChoice("dmabuf")


def _blocking_codes(node: Node) -> str:
    return ", ".join(codes_of(node, "dmabuf")) or "evidence is missing"


# -- the node's cards --------------------------------------------------------------------------------


def any_gpu(request: ConfigRequest, test: Callable[[Node, PciGpu], bool]) -> bool:
    """Whether a GPU of the node passes a test; False if unknown."""

    def passes(node: Node) -> bool:
        return any(test(node, gpu) for gpu in gpus(node))

    return bool(ask(request, passes))


def has_gpu_before_turing(request: ConfigRequest) -> bool:
    return any_gpu(request, is_before_turing)


def has_coherent_gpu(request: ConfigRequest) -> bool:
    if request.saved is not None:
        return request.saved.coherent
    return any_gpu(request, is_coherent)


def has_integrated_gpu(request: ConfigRequest) -> bool:
    if request.saved is not None:
        return request.saved.integrated
    return any_gpu(request, is_integrated)


@fact
def active_ports(node: Node) -> tuple[RdmaPort, ...]:
    """The active ports of hardware RDMA devices."""
    return tuple(
        port for device in nics(node) for port in ports(node, device.name) if port.state == "ACTIVE"
    )


@fact
def nearest(node: Node) -> tuple[tuple[Pair, str], ...]:
    """Each GPU with its nearest active devices, and their distances."""
    found = []
    for pair in nearest_pairs(node, verdict(node).matrix):
        if pair is not None:
            found.append((pair, distance(node, pair)))
    return tuple(found)


def known_ports(request: ConfigRequest) -> tuple[RdmaPort, ...]:
    """The active ports; () if they are not known."""
    return request.saved.ports if request.saved is not None else ask(request, active_ports) or ()


def known_nearest(request: ConfigRequest) -> tuple[tuple[Pair, str], ...]:
    """Each GPU's nearest devices, and their distances; () if they are not known."""
    return request.saved.nearest if request.saved is not None else ask(request, nearest) or ()
