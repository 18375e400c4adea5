"""Manifests of Kubernetes and Talos in a pasted text. PURE."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from gdrkit.facts.transcript import Line

_START = re.compile(r"(?:apiVersion|kind): *[\w./-]+ *$|machine: *$")


@functools.lru_cache(maxsize=8)
def manifests(lines: tuple[Line, ...]) -> Mapping[int, str]:
    """Each manifest that stands in a block of code, by its first line, with its lines at their numbers.

    Manifests quoted as advice are none."""
    return {number: _padded(own) for number, own in blocks(lines).items()}


def blocks(lines: tuple[Line, ...]) -> Mapping[int, list[Line]]:
    """The lines of each manifest, by the number of its first."""
    found: dict[int, list[Line]] = {}
    current: list[Line] = []
    for line in lines:
        if line.kind not in ("shown", "machine"):
            current = []
        elif current and line.number - current[-1].number <= _GAP and _is_yaml(line.text):
            current.append(line)
        elif _START.match(line.text):
            current = [line]
            found[line.number] = current
        else:
            current = []
    return found


_GAP = 3
"""Blank lines within one manifest, at most: more, and it is another block of code."""


def _is_yaml(text: str) -> bool:
    return bool(re.match(r"\s*(?:[\w./\"'-]+:(?: |$)|- |#|---$|[}\]{\[])|\s+\S", text))


def _padded(lines: list[Line]) -> str:
    text, last = [], 0
    for line in lines:
        text.append("\n" * (line.number - last - 1) + line.text + "\n")
        last = line.number
    return "".join(text)
