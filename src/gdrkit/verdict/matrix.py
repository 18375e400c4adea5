"""Rules in, matrix out: pair x path x consumer, each cell with what blocks it or what is missing. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gdrkit.evidence import Lacks
from gdrkit.facts.pci import Gpu, gpus
from gdrkit.facts.rdma import Pair, Port, RdmaDevice, pairs
from gdrkit.node import Node
from gdrkit.rules.engine import Ruling
from gdrkit.rules.rule import CONSUMERS, PATHS
from gdrkit.verdict.judgement import Judgement, judge_path

COMBINATIONS = tuple(
    (path, consumer)
    for path in PATHS
    for consumer in CONSUMERS
    if not (path == "host-mapped" and consumer != "verbs") and not (path == "socket" and consumer == "verbs")
)
"""Paths that a consumer has at all. NCCL and UCX copy; only programs of their own share pinned host memory.
Verbs programs have no socket path: that would not be verbs."""

Matrix = dict[Pair | None, tuple[Judgement, ...]]


def matrix(node: Node, rulings: Iterable[Ruling]) -> Matrix:
    """Every pair's judgements. Where there are no pairs, what concerns the node alone, under None."""
    rulings = tuple(rulings)
    seen: dict[tuple[int, ...], tuple[Judgement, ...]] = {}
    table: Matrix = {}
    for pair in pairs_or_gpus(node) or (None,):
        here = tuple(ruling for ruling in rulings if concerns(ruling.subject, pair))
        key = tuple(id(ruling) for ruling in here if ruling.decisive)
        if key not in seen:
            seen[key] = judgements(node, here)
        table[pair] = seen[key]
    return table


def pairs_or_gpus(node: Node) -> tuple[Pair, ...]:
    """The pairs; where nobody looked for RDMA devices, each GPU with a device that is not known.

    A pair that could not be judged is not an empty pair: a GPU that can never do it settles the matter.
    """
    try:
        return pairs(node)
    except Lacks:
        pass
    try:
        return tuple(Pair(gpu.address, "") for gpu in gpus(node))
    except Lacks:
        return ()


def judgements(node: Node, rulings: tuple[Ruling, ...]) -> tuple[Judgement, ...]:
    """One judgement per path and consumer, split by direction only where the directions differ."""
    answers = []
    for path, consumer in COMBINATIONS:
        send, receive = (
            judge_path(node, rulings, path, consumer, direction) for direction in ("send", "receive")
        )
        if (send.state, send.codes, send.missing) == (receive.state, receive.codes, receive.missing):
            answers.append(replace(send, direction="both"))
        else:
            answers += [send, receive]
    return tuple(answers)


def concerns(subject: object, pair: Pair | None) -> bool:
    """Whether a rule's subject has a say in what happens on a pair."""
    match subject:
        case Pair():
            return subject == pair
        case Gpu(address=address):
            return pair is not None and address == pair.gpu
        case RdmaDevice(name=name):
            return pair is not None and name == pair.device
        case Port(device=name):
            return pair is not None and name == pair.device
        case _:  # a module, a file, the node, or nobody knows what
            return True
