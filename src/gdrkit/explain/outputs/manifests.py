"""Kubernetes and Talos manifests in a pasted text."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.manifest_excerpts import excerpts


@functools.lru_cache(maxsize=8)
def manifests(lines: tuple[TextLine, ...]) -> Mapping[int, str]:
    """The text of each manifest in a code block, by its first line number; blank lines are kept.

    Manifests that are quoted as advice are left out."""
    shown = ((line.number, line.text if line.kind in ("shown", "machine") else None) for line in lines)
    found = {}
    for start, numbered in excerpts(shown).items():
        texts = dict(numbered)
        found[start] = "".join(f"{texts.get(number, '')}\n" for number in range(start, max(texts) + 1))
    return found
