"""The predictor under test, asked what the recorded modprobe command was asked."""

from __future__ import annotations

from gdrkit.loader import Prediction, modprobe
from gdrkit.node import Node
from lab.golden import Recorded


def predict(node: Node, case: Recorded) -> Prediction:
    """What gdrkit says that this command will do on this node."""
    flags = [word for word in case.argv[1:] if word.startswith("-")]
    name, *parameters = [word for word in case.argv[1:] if not word.startswith("-")]
    return modprobe(node, name, (*flags, *parameters))
