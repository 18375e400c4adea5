"""Manifests of Kubernetes and Talos within other text: a post, an article, a README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gdrkit.formats.regex import regex

Numbered = tuple[int, str]
"""A line and its number, from 1."""

_FIRST_LINE = r"(?:apiVersion|kind): *[\w./-]+ *$|machine: *$"
_START, _BEGINS = regex(_FIRST_LINE), regex(rf"(?m)^(?:{_FIRST_LINE})")
_GAP = 3
"""How far apart two lines of one manifest can be; after more blank lines another block begins."""


def has_excerpt(text: str) -> bool:
    """Whether a line of a text begins a manifest."""
    return _BEGINS.search(text) is not None


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


_OPENS = regex(
    r"\{|(?:apiVersion|kind|metadata|spec|machine|version|variant|ignition|customization|driver|services) *:"
)
"""The first line of a file for Kubernetes, Talos, Butane, Helm or compose; JSON begins with a brace."""


def is_manifest(lines: Iterable[str]) -> bool:
    """Whether lines are a file of manifests, and nothing else: an object begins before any other line, and
    each line has the form of YAML or JSON."""
    begun = False
    for text in lines:
        if not text.strip() or text.startswith(("#", "---")):
            continue
        begun = begun or _OPENS.match(text) is not None
        if not (begun and _is_yaml(text)):
            return False
    return begun


def _is_yaml(text: str) -> bool:
    return bool(re.match(r"\s*(?:[\w./\"'-]+:(?: |$)|- |#|---$|[}\]{\[])|\s+\S", text))
