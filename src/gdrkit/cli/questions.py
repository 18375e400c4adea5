"""The command that answers what people ask, by the words of the sentence: an index, which proves nothing."""

from __future__ import annotations

import re

from gdrkit.cli import COMMANDS
from gdrkit.formats.sentences import without_keys

MOST_WORDS = 60
"""Longer texts report something, and ask in passing."""

WORDS = {
    "topo": "nic nics hca hcas nearest closest near topology affinity distance numa switch pcie socket path",
    "estimate": (
        "bandwidth speed fast slow slower throughput gbit gbps rate cable cables latency limit expect"
        " ceiling gain"
    ),
    "bench": "measure benchmark bench test",
    "prove": "prove proof really actually counters",
    "nccl": "nccl job log logs gdrdma training rank ranks channel channels",
    "ps": "process processes pid running now vllm",
    "fix": "enable install fix repair setup set turn activate load configure",
    "config": "kubernetes k8s operator openshift talos helm manifest yaml variables nccl_conf cloud-init",
    "fleet doctor": "cluster fleet nodes servers hosts machines",
    "modprobe": "modprobe insmod module",
    "probe": "cuda attribute capability driver",
}
"""Words of questions that a command answers: `gdr doctor`, which every answer names, has the rest."""


def next_step(text: str) -> str:
    """The command that answers a question or a short remark besides `gdr doctor`, and what it does; "" if
    its words are of none, or the text is longer."""
    words = re.findall(r"[a-z0-9_-]+", without_keys(text).casefold())
    hits = {name: len(set(words) & set(known.split())) for name, known in WORDS.items()}
    best = max(hits, key=lambda name: hits[name])
    if not hits[best] or len(words) > MOST_WORDS:
        return ""
    return f"`gdr {best}` may answer that: {COMMANDS[best]}."
