"""Manifests of Kubernetes and Talos in a pasted text. PURE."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from gdrkit.explain.transcript import Line
from gdrkit.facts.manifest_excerpts import Numbered, excerpts


@functools.lru_cache(maxsize=8)
def manifests(lines: tuple[Line, ...]) -> Mapping[int, str]:
    """Each manifest that stands in a block of code, by its first line, with its lines at their numbers.

    Manifests quoted as advice are none."""
    shown = ((line.number, line.text if line.kind in ("shown", "machine") else None) for line in lines)
    return {number: _padded(own) for number, own in excerpts(shown).items()}


def _padded(lines: Iterable[Numbered]) -> str:
    text, last = [], 0
    for number, line in lines:
        text.append("\n" * (number - last - 1) + line + "\n")
        last = number
    return "".join(text)
