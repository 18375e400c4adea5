"""Rules in, matrix out: pair x path x consumer, each cell with what blocks it or what is missing."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.consumers.table import CELLS, cells_of
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, RdmaDevice, RdmaPort, pairs
from gdrkit.node import Node, if_missing
from gdrkit.rules.engine import CheckResult, check_results, confidence_of
from gdrkit.rules.rule import Passed, Rule
from gdrkit.verdict.path_state import PathState, applies_to, judge_path
from gdrkit.verdict.usage import seen_in_use

COMBINATIONS = tuple((path.value, consumer.name) for path, consumer in CELLS)

Cell = tuple[str, str]  # path, consumer
Matrix = dict[Pair | None, tuple[PathState, ...]]


def matrix(node: Node, answers: Iterable[CheckResult]) -> Matrix:
    """Every pair's judgements. Where there are no pairs, what concerns the node alone, under None."""
    return judgements_at(node, answers, pairs_or_gpus(node) or (None,))


def judgements_at(
    node: Node,
    answers: Iterable[CheckResult],
    places: Iterable[Pair | None],
    cells: Iterable[Cell] = COMBINATIONS,
) -> Matrix:
    """The judgements of these pairs. What the same rulings decide is put together once, for all pairs."""
    answers, cells = tuple(answers), tuple(cells)
    said = _said(node, answers)
    known: dict[tuple[Cell, tuple[int, ...]], tuple[PathState, ...]] = {}
    table: Matrix = {}
    for place in places:
        groups = [said[about] for about in _abouts(place) if about in said]
        here: list[PathState] = []
        for cell in cells:
            key = cell, tuple(sorted({number for group in groups for number in group.get(cell, ())}))
            if key not in known:
                known[key] = _by_direction(node, [answers[number] for number in key[1]], *cell)
            here.extend(known[key])
        table[place] = seen_in_use(node, place, tuple(here))
    return table


def judge_pairs(node: Node, rules: Iterable[Rule], pairs: Iterable[Pair | None], consumer: str) -> Matrix:
    """The judgements of a few pairs for one consumer, from the rules that have a say in them."""
    pairs = tuple(pairs)
    wanted = {thing for pair in pairs for thing in _abouts(pair)}
    answers = check_results(node, rules, lambda subject: about(subject) in wanted)
    return judgements_at(node, answers, pairs, [cell for cell in COMBINATIONS if cell[1] == consumer])


def _said(node: Node, answers: tuple[CheckResult, ...]) -> dict[object, dict[Cell, list[int]]]:
    """By what rulings are about, and by cell: the numbers of those that have a say in it.

    Of several that passed alike the first stands for all, so that pairs where all is well are equal.
    """
    said: dict[object, dict[Cell, list[int]]] = {}
    alike: dict[tuple[object, ...], int] = {}
    for number, ruling in enumerate(answers):
        takes = applies_to(ruling)
        if not takes:
            continue
        if isinstance(ruling.outcome, Passed):
            kind = (ruling.outcome.lacking, confidence_of(node, ruling), ruling.rule.direction)
            number = alike.setdefault((*kind, takes), number)
        group = said.setdefault(about(ruling.subject), {})
        for cell in cells_of(takes):
            group.setdefault(cell, []).append(number)
    return said


def pairs_or_gpus(node: Node) -> tuple[Pair, ...]:
    """The pairs; where nobody looked for RDMA devices, each GPU with a device that is not known.

    A pair that could not be judged is not an empty pair: a GPU that can never do it settles the matter.
    """
    found = if_missing(None, pairs, node)
    return tuple(Pair(gpu.address, "") for gpu in if_missing((), gpus, node)) if found is None else found


def _by_direction(node: Node, answers: list[CheckResult], path: str, consumer: str) -> tuple[PathState, ...]:
    """One judgement, or one for each direction where the directions differ."""
    if all(ruling.rule.direction == "both" for ruling in answers):
        return (judge_path(node, answers, path, consumer, "both"),)
    send = judge_path(node, answers, path, consumer, "send")
    receive = judge_path(node, answers, path, consumer, "receive")
    if (send.state, send.codes, send.missing) == (receive.state, receive.codes, receive.missing):
        return (replace(send, direction="both"),)
    return send, receive


def about(subject: object) -> object:
    """What of a pair a rule's subject is; None for what has a say in every pair."""
    match subject:
        case Pair():
            return subject
        case PciGpu(address=address):
            return "gpu", address
        case RdmaDevice(name=name):
            return "device", name
        case RdmaPort(device=name):
            return "device", name
        case _:  # a module, a file, the node, or nobody knows what
            return None


def _abouts(pair: Pair | None) -> tuple[object, ...]:
    return (None,) if pair is None else (None, ("gpu", pair.gpu), ("device", pair.device), pair)


def concerns(subject: object, pair: Pair | None) -> bool:
    """Whether a rule's subject has a say in what happens on a pair."""
    return about(subject) in _abouts(pair)
