"""The predictor under test, called with a recorded modprobe command."""

from __future__ import annotations

from gdrkit.loader import Prediction, modprobe
from gdrkit.node import Node
from lab.golden import Recorded


def predict(node: Node, case: Recorded) -> Prediction:
    """gdrkit's prediction for this command on this node."""
    flags = [word for word in case.argv[1:] if word.startswith("-")]
    name, *parameters = [word for word in case.argv[1:] if not word.startswith("-")]
    return modprobe(node, name, (*flags, *parameters))
