"""Patterns of paths, as used in the table of sources.

`*` and `?` match within one part of a path; `{a,b*}` is a choice; `<release>` is the kernel release and
`<pci>` the address of a relevant PCI device.
"""

from __future__ import annotations

import fnmatch
import re
from typing import List, Pattern

_GROUP = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"\{([^{}]*)\}|<[a-z]+>|\*|\?|[^{}<>*?]+")


def alternatives(part: str) -> List[str]:
    """A part of a pattern with its choices expanded: `a{b,c}` is `ab` and `ac`."""
    start = part.find("{")
    if start < 0:
        return [part]
    end = part.index("}", start)
    return [
        part[:start] + choice + rest
        for choice in part[start + 1 : end].split(",")
        for rest in alternatives(part[end + 1 :])
    ]


def unfold(pattern: str) -> List[str]:
    """The pattern as several patterns without choices that contain a slash."""
    for group in _GROUP.finditer(pattern):
        if "/" in group.group(1):
            head, tail = pattern[: group.start()], pattern[group.end() :]
            return [whole for choice in group.group(1).split(",") for whole in unfold(head + choice + tail)]
    return [pattern]


def is_name(part: str) -> bool:
    """Whether a part of a pattern, or one of its alternatives, is a plain name."""
    return not any(character in part for character in "*?[{")


def select(names: List[str], choices: List[str]) -> List[str]:
    """The names that one of the choices matches, in the order of the names."""
    fits = re.compile("|".join(map(fnmatch.translate, choices))).match
    return [name for name in names if fits(name)]


def expression(pattern: str, below: bool = False) -> Pattern[str]:
    """The pattern as a regular expression for whole paths; with `below`, also for everything below them."""
    return re.compile(_translated(pattern) + ("(?:/.*)?" if below else "") + r"\Z", re.DOTALL)


def _translated(pattern: str) -> str:
    words = []
    for token in _TOKEN.finditer(pattern):
        text = token.group()
        if text.startswith("{"):
            words.append("(?:" + "|".join(_translated(choice) for choice in token.group(1).split(",")) + ")")
        elif text.startswith("<"):
            words.append("[^/]+")
        else:
            words.append({"*": "[^/]*", "?": "[^/]"}.get(text) or re.escape(text))
    return "".join(words)


def folders(pattern: str) -> List[str]:
    """The folders, as patterns, that are listed to find the matches of a pattern."""
    found = []
    for whole in unfold(pattern):
        parts = whole.split("/")
        found += ["/".join(parts[:depth]) for depth, part in enumerate(parts) if depth and not is_name(part)]
    return found
