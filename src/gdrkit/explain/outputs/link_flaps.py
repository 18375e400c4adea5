"""Links that the kernel saw go down again and again, and cables that are plugged in again."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.blocks import EVIDENCE
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.facts.link_errors import FLAPS, link_downs
from gdrkit.formats.regex import regex

FLAPPING = "a link that goes down"
_CABLE = regex(
    r"\bmlx5_core (?P<slot>[0-9a-f:.]{7,12}): Port module event(?:\[error\])?: (?P<module>module \d{1,3}), "
    r"Cable (?P<what>(?:un)?plugged)"
)
"""Source: Linux drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module()."""


def plugged_again(lines: tuple[TextLine, ...]) -> dict[int, tuple[str, int]]:
    """The lines by which a cable was unplugged that a later line shows plugged in: what was unplugged, and
    that line. Numbers of lines."""
    found: dict[int, tuple[str, int]] = {}
    out: dict[str, list[int]] = {}
    for line in lines:
        if line.kind in EVIDENCE and (cable := _CABLE.search(line.text)):
            name = f"the cable of {cable['slot']}, {cable['module']},"
            if cable["what"] == "unplugged":
                out.setdefault(name, []).append(line.number)
            else:
                found |= dict.fromkeys(out.pop(name, ()), (name, line.number))
    return found


def flap_facts(lines: tuple[TextLine, ...]) -> Iterator[KnownFact]:
    """The interface whose link went down most often, else a cable that is plugged in again."""
    shown = [line for line in lines if line.kind in EVIDENCE]
    texts = {line.number: line.text.strip() for line in shown}
    downs = link_downs(line.text for line in shown)
    name = max(downs, key=lambda one: len(downs[one]), default="")
    if name and len(downs[name]) >= FLAPS:
        first, last = shown[downs[name][0]], shown[downs[name][-1]]
        others = [other for other in downs if other != name and len(downs[other]) >= FLAPS]
        more = f", and {len(others)} more such" if others else ""
        value = f"{name} went down {len(downs[name])} times, the last time in line {last.number}{more}"
        yield KnownFact(FLAPPING, value, first.number, first.text.strip())
    elif back := plugged_again(lines):
        number, (cable, plugged) = next(iter(back.items()))
        value = f"{cable} was unplugged in line {number}, and is plugged in again since line {plugged}"
        yield KnownFact(FLAPPING, value, number, texts[number])
