"""What modprobe would report; the loader is loaded only where its index of modules is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gdrkit.facts.loaded_modules import PEERMEM
from gdrkit.facts.module_index import require_index
from gdrkit.node import Node, if_missing

if TYPE_CHECKING:
    from gdrkit.loader import Prediction


def predicted(node: Node) -> Prediction | None:
    """What modprobe would report for nvidia-peermem; None if the evidence does not suffice."""
    if not if_missing(False, lambda: require_index(node) is None):
        return None  # as in a container, which does not need the loader then
    from gdrkit.loader import modprobe

    return if_missing(None, modprobe, node, PEERMEM)
