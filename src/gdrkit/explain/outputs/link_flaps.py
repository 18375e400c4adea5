"""Links that the kernel saw go down again and again."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.link_errors import FLAPS, link_downs

FLAPPING = "a link that goes down"


def flap_facts(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    """The interface whose link went down most often."""
    shown = [line for line in lines if line.kind in EVIDENCE]
    downs = link_downs(line.text for line in shown)
    name = max(downs, key=lambda one: len(downs[one]), default="")
    if name and len(downs[name]) >= FLAPS:
        first, last = shown[downs[name][0]], shown[downs[name][-1]]
        others = [other for other in downs if other != name and len(downs[other]) >= FLAPS]
        more = f", and {len(others)} more such" if others else ""
        value = f"{name} went down {len(downs[name])} times, the last time in line {last.number}{more}"
        yield KnownFact(FLAPPING, value, first.number, first.text.strip())
