"""Which causes only GPUs and drivers of NVIDIA can have."""

from __future__ import annotations

from gdrkit.catalogue import rule_of
from gdrkit.messages.errors import EFAULT
from gdrkit.messages.verbs_failures import causes_of
from gdrkit.rules.rule import DMABUF, CauseTrait, Layer

MISSES = frozenset(("nccl-misses-peermem", "nvshmem-misses-peermem", "ucx-misses-peermem"))

OF_NVIDIA = frozenset((*causes_of("ibv_reg_mr", EFAULT), "peermem-stub", "memory-not-registrable"))
"""Causes that only NVIDIA's GPUs and drivers have: memory of a host has none of them."""


def needs_nvidia(code: str) -> bool:
    """Whether only a machine with a GPU of NVIDIA can have a cause.

    Another maker's driver has no nvidia-peermem, and its own rules for dma-buf."""
    rule = rule_of(code)
    of_nvidia = code in OF_NVIDIA or code in MISSES or CauseTrait.NVIDIA_ONLY in rule.traits
    return of_nvidia or rule.layer is Layer.DRIVER or DMABUF in rule.takes("")
