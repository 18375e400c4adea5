"""The predictor under test, called with a recorded modprobe command."""

from __future__ import annotations

from gdrkit.loader import Prediction, modprobe
from gdrkit.node import Node
from lab.golden import Recorded


def predict(node: Node, case: Recorded) -> Prediction:
    """gdrkit's prediction for this command on this node."""
    at = next(at for at, word in enumerate(case.argv) if at and not word.startswith("-"))
    return modprobe(node, case.argv[at], (*case.argv[1:at], *case.argv[at + 1 :]))
