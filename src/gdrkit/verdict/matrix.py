"""The matrix of pair x path x consumer: each cell with its state, what blocks it and what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.facts.gpu_recovery import lost_gpus
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, RdmaDevice, RdmaPort, pairs
from gdrkit.facts.unused_nics import UnusedNic
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import WITHOUT_NIC
from gdrkit.rules.gpu_passed_through import all_passed_through
from gdrkit.rules.rule import Passed, Rule
from gdrkit.verdict.cells import cells_of, every_cell
from gdrkit.verdict.check_results import CheckResult, check_results, confidence_of
from gdrkit.verdict.path_state import PathState, judge_path
from gdrkit.verdict.usage import seen_in_use

Cell = tuple[str, str]  # path, consumer
Matrix = dict[Pair | None, tuple[PathState, ...]]


def matrix(node: Node, results: Iterable[CheckResult]) -> Matrix:
    """The states of every pair. Without pairs, the states of the node as a whole, under None; then paths
    without a NIC are judged for each GPU."""
    results = tuple(results)
    some_pairs = pairs_to_judge(node)
    if some_pairs:
        return path_states_at(node, results, some_pairs, _cells())
    alone = tuple(Pair(gpu.address, "") for gpu in if_missing((), gpus, node))
    without = [cell for cell in _cells() if alone and cell[0] in WITHOUT_NIC]
    others = [cell for cell in _cells() if cell not in without]
    return path_states_at(node, results, (None,), others) | path_states_at(node, results, alone, without)


def _cells() -> list[Cell]:
    """All pairs of a path and a program that uses it, by name."""
    return [(path.value, consumer.name) for path, consumer in every_cell()]


def path_states_at(
    node: Node,
    results: Iterable[CheckResult],
    some_pairs: Iterable[Pair | None],
    cells: Iterable[Cell],
) -> Matrix:
    """The states of these pairs. Pairs that the same results decide share one computation."""
    results, cells = tuple(results), tuple(cells)
    by_subject = _by_subject(node, results, frozenset(cells))
    known: dict[tuple[Cell, tuple[int, ...]], tuple[PathState, ...]] = {}
    table: Matrix = {}
    for pair in some_pairs:
        groups = [by_subject[part] for part in _parts(pair) if part in by_subject]
        here: list[PathState] = []
        for cell in cells:
            key = cell, tuple(sorted({number for group in groups for number in group.get(cell, ())}))
            if key not in known:
                known[key] = _by_direction(node, [results[number] for number in key[1]], *cell)
            here.extend(known[key])
        table[pair] = seen_in_use(node, pair, tuple(here))
    return table


def path_states_of_pairs(
    node: Node, rules: Iterable[Rule], pairs: Iterable[Pair | None], consumer: str
) -> Matrix:
    """The states of a few pairs for one consumer, from the results that concern them."""
    pairs = tuple(pairs)
    wanted = {part for pair in pairs for part in _parts(pair)}
    results = check_results(node, rules, lambda subject: about(subject) in wanted)
    return path_states_at(node, results, pairs, [cell for cell in _cells() if cell[1] == consumer])


def _by_subject(
    node: Node, results: tuple[CheckResult, ...], wanted: frozenset[Cell]
) -> dict[object, dict[Cell, set[int]]]:
    """For each part of a pair, or None, and each wanted cell: the numbers of the results that concern it.

    Of several equal passes the first represents all, so that pairs without problems share their states.
    """
    found: dict[object, dict[Cell, set[int]]] = {}
    alike: dict[tuple[object, ...], int] = {}
    added: set[tuple[object, int]] = set()
    for number, result in enumerate(results):
        takes = result.takes
        if not takes:
            continue
        if isinstance(result.outcome, Passed):
            kind = (result.outcome.lacking, confidence_of(node, result), result.rule.direction)
            number = alike.setdefault((*kind, takes), number)
        part = about(result.subject)
        if (part, number) not in added:
            added.add((part, number))
            group = found.setdefault(part, {})
            for cell in wanted & cells_of(takes):
                group.setdefault(cell, set()).add(number)
    return found


def pairs_to_judge(node: Node) -> tuple[Pair, ...]:
    """The pairs; if RDMA devices were not collected, each GPU paired with an unknown device, "".

    An unknown device does not mean that there is no pair: a GPU without support is impossible at any NIC.
    Neither does the lack of one where all GPUs belong to virtual machines, with NICs of their own. A GPU
    that is expected and not there, or that fell off the bus, is such a pair too: what lies in its way is
    that it is missing."""
    found = if_missing(None, pairs, node)
    if found is None or (not found and all_passed_through(node)):
        found = tuple(Pair(gpu.address, "") for gpu in if_missing((), gpus, node))
    if not found:
        return ()
    from gdrkit.facts.expected_devices import absent_gpus

    absent = (*if_missing((), absent_gpus, node), *lost_gpus(node))
    return (*found, *(Pair(gpu.address, "") for gpu in absent))


def _by_direction(node: Node, results: list[CheckResult], path: str, consumer: str) -> tuple[PathState, ...]:
    """One state, or one for each direction if they differ."""
    if all(result.rule.direction == "both" for result in results):
        return (judge_path(node, results, path, consumer, "both"),)
    send = judge_path(node, results, path, consumer, "send")
    receive = judge_path(node, results, path, consumer, "receive")
    if (send.state, send.codes, send.missing) == (receive.state, receive.codes, receive.missing):
        return (replace(send, direction="both"),)
    return send, receive


def about(subject: object) -> object:
    """The part of a pair that a subject is; None for a subject that concerns every pair."""
    match subject:
        case Pair():
            return subject
        case PciGpu(address=address):
            return "gpu", address
        case UnusedNic(gpu=address):
            return "gpu", address
        case RdmaDevice(name=name):
            return "device", name
        case RdmaPort(device=name):
            return "device", name
        case _:  # a module, a file, the node, or an unknown subject
            return None


def _parts(pair: Pair | None) -> tuple[object, ...]:
    """What `about` can return for subjects that concern this pair."""
    return (None,) if pair is None else (None, ("gpu", pair.gpu), ("device", pair.device), pair)


def concerns(subject: object, pair: Pair | None) -> bool:
    """Whether a rule's subject concerns a pair."""
    return about(subject) in _parts(pair)
