"""Products and environments by the words for them: those in which GPUDirect RDMA cannot work, or works
differently, each by its code, and the GPUs for data centres and workstations.
"""

from __future__ import annotations

import functools
import re

from gdrkit.facts.cable_halves import names_a_spark
from gdrkit.formats.regex import regex

_WORDS = {
    "gpu-integrated": (
        r"\bGB10\b|(?<![A-Za-z])DGX[-_ ]?Sparks?\b|\bZGX Nano\b|\bAscent GX10\b|\bJetson\b|\(nvgpu\)"
    ),
    "gpu-consumer": (
        r"\bGeForce\b|\bTITAN (?:X|V|RTX|Xp)\b|\bRTX[- ]?(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)\b"
        r"|\bGTX ?(?:Titan|[4-9]\d0|1[06]\d0)\b"
        r"|\b(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti| super)?s? (?:GPUs?|cards?)\b"
    ),
    "wsl": r"\b[Ww][Ss][Ll] ?2?\b|microsoft-standard-WSL",
    "gpu-vgpu": r"\bv[Gg]PU\b|\bGRID [A-Z]\d+|\b[AL]\d{1,3}S?-\d{1,2}[CQ]\b",
}
CARDS = ("gpu-consumer", "gpu-integrated")
"""Kinds of GPUs: a text whose outputs show other ones does not mean them."""
DATACENTER = "datacenter"
"""Stands for GPUs for data centres and workstations, which no code is about."""
_DATACENTER_WORDS = (
    r"\bTesla\b|\bQuadro\b|\bNVS \d|\bRTX (?:PRO )?A?(?:[1-6][05]00|[45]00|5880)[DH]?\b"
    r"|\b(?:[AHBV][12]00|H20|H800|A800|GH200|GB[23]00|[KMP]\d0|P100|K20m|T4|L[42]0S?|A[1346]0)\b"
    r"|\b(?:NVIDIA |[A-Z]{2}\d{3}(?:GLM?)? \[)(?:[AHBR]\d{1,3}[A-Z]?|AX800|L\d{1,2}[GS]?|T\d{1,4}G?)\b"
)
"""The last are names as the driver and pci.ids have them: as words alone, A2 or L4 may be anything."""

SPARK = regex(r"(?i)\bSparks?\b|\bGB10\b|\brocep1s0f|\broceP2p|\benp7s7\b")
"""What a text about a DGX Spark or a machine like it has: the names of its devices among them."""
HARDWARE_CODES = frozenset(_WORDS)


def products(text: str) -> frozenset[str]:
    """The codes of the products that a text names, and DATACENTER for GPUs for data centres."""
    by_devices = ("gpu-integrated",) * names_a_spark(text)
    return frozenset((*by_devices, *(code for code, words in _patterns() if words.search(text))))


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    every = {**_WORDS, DATACENTER: _DATACENTER_WORDS}
    return tuple((code, re.compile(words)) for code, words in every.items())
