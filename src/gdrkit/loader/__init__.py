"""Predict the output of modprobe and the kernel log, without loading anything."""

from __future__ import annotations

from gdrkit.loader.modprobe import modprobe
from gdrkit.loader.prediction import Prediction

__all__ = ["Prediction", "modprobe"]
