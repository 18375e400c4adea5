"""Numbers of things, for readers."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """A number with its noun: "1 node", "2 nodes", "3 switches"."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "ss")) else "s"
    return f"{number} {noun}{ending}"
