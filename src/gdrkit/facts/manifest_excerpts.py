"""Manifests of Kubernetes and Talos within other text: a post, an article, a README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

Numbered = tuple[int, str]
"""A line and its number, from 1."""

_START = re.compile(r"(?:apiVersion|kind): *[\w./-]+ *$|machine: *$")
_GAP = 3
"""How far apart two lines of one manifest can be; after more blank lines another block begins."""


def excerpts(lines: Iterable[tuple[int, str | None]]) -> Mapping[int, list[Numbered]]:
    """The lines of each manifest, by the number of its first line. A None ends a manifest."""
    found: dict[int, list[Numbered]] = {}
    current: list[Numbered] = []
    for number, text in lines:
        if text is None:
            current = []
        elif current and number - current[-1][0] <= _GAP and _is_yaml(text):
            current.append((number, text))
        elif _START.match(text):
            current = [(number, text)]
            found[number] = current
        else:
            current = []
    return found


def _is_yaml(text: str) -> bool:
    return bool(re.match(r"\s*(?:[\w./\"'-]+:(?: |$)|- |#|---$|[}\]{\[])|\s+\S", text))
