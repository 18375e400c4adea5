"""The shortest plan after which nvidia-peermem loads, regardless of the verdict on the node.

For machines without a GPU yet, or with dma-buf ready where peermem is wanted as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gdrkit.catalogue import CODES, rule_of
from gdrkit.loader import Prediction
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.platforms.means import can_do
from gdrkit.repair.remedies import remedy_of
from gdrkit.repair.remedies.load_peermem import LOAD_PEERMEM
from gdrkit.repair.remedies.plan import STEPS_AT_MOST, untried
from gdrkit.repair.remedies.remedy import Remedy, standing
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.verdict.prediction import predicted


def loading_plan(node: Node) -> tuple[Remedy, ...] | None:
    """The steps after which modprobe is predicted to load nvidia-peermem, and the boot does too.

    None if no such steps are known. A prediction with an unknown result of the module's init is accepted.
    """
    queue: deque[tuple[Node, tuple[Remedy, ...]]] = deque([(node, ())])
    seen: set[tuple[str, ...]] = set()
    while queue:
        here, steps = queue.popleft()
        prediction = predicted(here)
        if prediction is not None and (prediction.loaded or prediction.result_unknown):
            return (*steps, LOAD_PEERMEM)
        if len(steps) + 1 < STEPS_AT_MOST:
            for remedy, changes in untried(_applicable(here, prediction, steps), steps, seen):
                queue.append((here.after(remedy.name, changes), (*steps, remedy)))
    return None


def _applicable(
    node: Node, prediction: Prediction | None, taken: tuple[Remedy, ...]
) -> Iterator[tuple[Remedy, tuple[Supposition, ...]]]:
    """Possible remedies for what stops the loading, or for what an earlier step made uncertain."""
    stops = ("module-unsigned",) if prediction is None else (prediction.reason, *prediction.unless)
    names = {name for code in stops if code in CODES for name in rule_of(code).remedies}
    done = standing(taken)
    named = map(remedy_of, (name for name in RemedyName if name in names))
    able = (remedy for remedy in named if "peermem" in remedy.paths and can_do(node, remedy))
    remedies = (remedy for remedy in able if remedy not in done)
    return each_known(lambda remedy: (remedy, tuple(remedy.effect(node))), remedies)
