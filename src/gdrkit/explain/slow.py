"""A direct path that works and is slow: the sentence that says so, and what slows it down.

No program prints it. Its causes are those that change the way between GPU and NIC, and not whether one can
reach the other.
"""

from __future__ import annotations

import re

from gdrkit.catalogue import every_rule
from gdrkit.explain import cues
from gdrkit.explain.sentences import Sentence
from gdrkit.rules.capabilities import REGISTRATION

CAUSES = tuple(
    rule.code
    for rule in every_rule()
    if set(rule.slows) >= set(REGISTRATION) and not rule.code.startswith("expected-")
)
"""A difference from an expectation does not slow anything down by itself."""

STEPS = (
    "`gdr topo` shows the path of every pair of GPU and NIC, with what slows it down.",
    "- Without gdr: `nvidia-smi topo -m`, where SYS and NODE are far apart; `sudo lspci -vvv`, where ACSCtl "
    "has ReqRedir+, or LnkSta is less than LnkCap; `cat /proc/cmdline`, for an IOMMU without iommu=pt.",
)

_DIRECT = re.compile(
    r"\bGPU ?Direct(?: ?RDMA)?\b|\bGDR(?:DMA)?\b|use_cuda|\bRDMA\b.{0,60}\bGPU memory\b"
    r"|\bGPU memory\b.{0,60}\b(?:RDMA|ib_(?:write|read|send)_bw|perftest)\b",
    re.IGNORECASE,
)
_RATE = re.compile(
    r"\b(?:bandwidth|throughput|performance|speed|bus ?bw|algbw|bw)\b|\d ?[GM]i?B/s|\d ?[GM]bps|\d ?Gb/s"
    r"|\d ?Gbit",
    re.IGNORECASE,
)
_LOW = re.compile(
    r"\b(?:slow(?:er|ly)?|poor|low(?:er)?|half|degrad\w*|drop(?:s|ped)?|only|worse|bad|limited|less than"
    r"|instead of)\b",
    re.IGNORECASE,
)
_NOT_DIRECT = re.compile(
    r"\b(?:disabl|fall(?:s|ing)? ?back|fell back|fallback|stag(?:ed|ing)|sockets?|TCP|without|unless|off"
    r"|bypass|replac|support)\w*|(?:\bnot|n't|\bnever|\bno)\b(?! (?:errors?|problems?|failures?|big|much))",
    re.IGNORECASE,
)
"""Words for a path that is not direct, or for something else."""


def slow(said: tuple[Sentence, ...]) -> Sentence | None:
    """The first sentence that says that GPU memory is reached directly, and slowly; None if none does."""
    return next((one for one in said if _is_slow(one.text)), None)


def _is_slow(text: str) -> bool:
    if not (_DIRECT.search(text) and _RATE.search(text) and _LOW.search(text)) or _NOT_DIRECT.search(text):
        return False
    return not (
        cues.is_instruction(text) or cues.is_general(text) or cues.is_change(text) or cues.is_request(text)
    )
