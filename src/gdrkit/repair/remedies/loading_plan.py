"""The shortest way to a nvidia-peermem that loads, whatever the verdict on the node is.

For machines that a verdict is not about: without a GPU yet, or where dma-buf is ready and peermem is wanted
all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from gdrkit.loader import Prediction
from gdrkit.node import Node, Supposition, each_known
from gdrkit.repair.remedies import REMEDIES
from gdrkit.repair.remedies.modules import load_peermem
from gdrkit.repair.remedies.plan import STEPS_AT_MOST, predicted
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules import BY_CODE


def loading_plan(node: Node) -> tuple[Remedy, ...] | None:
    """The steps after which modprobe is predicted to load it, and to do so at each boot.

    None where no way is known; where only the module's own init is left open, the way counts.
    """
    queue: deque[tuple[Node, tuple[Remedy, ...]]] = deque([(node, ())])
    seen: set[frozenset[str]] = set()
    while queue:
        here, way = queue.popleft()
        prediction = predicted(here)
        if prediction is not None and (prediction.loaded or prediction.result_unknown):
            return (*way, load_peermem)
        if len(way) + 1 >= STEPS_AT_MOST:
            continue
        for remedy, changes in _cures(here, prediction, way):
            key = frozenset(step.name for step in (*way, remedy))
            if key not in seen:
                seen.add(key)
                queue.append((here.after(remedy.name, changes), (*way, remedy)))
    return None


def _cures(
    node: Node, prediction: Prediction | None, taken: tuple[Remedy, ...]
) -> Iterator[tuple[Remedy, tuple[Supposition, ...]]]:
    """Steps that cure what stops the loading, or what a step before made uncertain."""
    stops = ("module-unsigned",) if prediction is None else (prediction.reason, *prediction.unless)
    names = {name for code in stops if code in BY_CODE for name in BY_CODE[code].remedies}
    remedies = (r for r in REMEDIES if "peermem" in r.paths and r not in taken and r.name in names)
    return each_known(lambda remedy: (remedy, tuple(remedy.effect(node))), remedies)
