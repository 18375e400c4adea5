"""How texts and pictures name a GPU: its number and its PCI address."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gdrkit.formats.regex import regex

NAMED = r"(?<![\w:.({{/'-])(?:GPU )?({})(?![\w:./'-]\w|-)"
"""An address alone or after the word GPU; not within a path, a quoted argument, or a slot already named."""
LOGGED = regex(r"NVRM: ")
"""The kernel driver's lines are quoted, and stay as they are."""


def gpu_slot(index: int | None, address: str) -> str:
    """`GPU 7 (0000:df:00.0)`; the number alone or the address alone where the other is not known, else "".

    The number is NVML's and nvidia-smi's, which count by PCI address; CUDA may count otherwise."""
    if index is None:
        return f"GPU {address}" if address else ""
    return f"GPU {index} ({address})" if address else f"GPU {index}"


def with_slots(words: str, addresses: Sequence[str]) -> str:
    """Words in which each of a node's GPUs, given in the order of their numbers, is named by its slot.

    Words between backticks are commands, in which an address stays alone."""
    if not any(address in words for address in addresses) or LOGGED.search(words):
        return words
    slots = {address: gpu_slot(index, address) for index, address in enumerate(addresses)}
    pattern = re.compile(NAMED.format("|".join(map(re.escape, slots))))
    parts = words.split("`")
    parts[::2] = [pattern.sub(lambda match: slots[match[1]], part) for part in parts[::2]]
    return "`".join(parts)
