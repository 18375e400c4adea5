"""Flow control of a RoCE port (PFC): what `mlnx_qos` sets, and what `ethtool -S` counts as discarded."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.explain.explanation import KnownFact
from gdrkit.explain.lines.transcript import TextLine
from gdrkit.formats.regex import regex

PRIORITIES, LOSSES = "mlnx_qos", "lost packets"
CARRIED_NOTHING = "carried nothing"


def flow_control_facts(shown: list[TextLine]) -> Iterator[KnownFact]:
    """The settings of a port, and its losses without flow control."""
    yield from _of_priorities(shown)
    yield from _of_losses(shown)


_TRUST = regex(r"Priority trust state: (\w{3,8})$")
_PFC = regex(r"\s+enabled((?:\s+[01]){8})\s*$")
"""Rows of mlnx_qos: what gives a packet its priority, and which priorities have flow control (PFC)."""


def _of_priorities(shown: list[TextLine]) -> Iterator[KnownFact]:
    """The settings of a RoCE port. None of them is a fault by itself: they have to be those of the switch,
    which the output does not show."""
    trust = next((found[1] for line in shown if (found := _TRUST.match(line.text.strip()))), "")
    pfc = _flow_control(shown)
    if not trust or pfc is None:
        return
    line, on = pfc
    flow = f"flow control on priority {', '.join(map(str, on))}" if on else "no priority with flow control"
    value = f"priorities by {trust}, {flow}; right if the switch has the same"
    yield KnownFact(PRIORITIES, value, line.number, line.text.strip())


def _flow_control(shown: list[TextLine]) -> tuple[TextLine, tuple[int, ...]] | None:
    """The row of mlnx_qos about flow control, and the priorities that have it; None without one row, or with
    several that differ."""
    rows = [(line, found[1].split()) for line in shown if (found := _PFC.match(line.text))]
    if not rows or any(bits != rows[0][1] for _, bits in rows):
        return None
    return rows[0][0], tuple(priority for priority, bit in enumerate(rows[0][1]) if bit == "1")


_COUNTED = regex(
    r"\s*(?:rx_prio(?P<priority>[0-7])_(?P<what>bytes|discards)|(?P<port>rx_discards_phy)):"
    r" (?P<count>\d{1,20})\s*$"
)
"""A counter of `ethtool -S`. Source: Linux drivers/net/ethernet/mellanox/mlx5/core/en_stats.c."""
PORT = -1
"""In place of a priority: the counter is of the whole port."""


_INTERFACE = regex(r"\b(?:mlnx_qos -i|mlnx_qos --interface[= ]|ethtool -S) *([\w.-]{1,15})")


def _of_losses(shown: list[TextLine]) -> Iterator[KnownFact]:
    """Packets that a port discarded without flow control: on a priority that has none, or on a port of which
    no priority has any. Whether they are those of RDMA, counters do not show, but where the priorities that
    have flow control carried nothing, no traffic gets it."""
    pfc = _flow_control(shown)
    counted: dict[tuple[str, int], tuple[int, TextLine]] = {}
    for line in shown:
        if found := _COUNTED.match(line.text):
            key = ("discards", PORT) if found["port"] else (found["what"], int(found["priority"]))
            counted.setdefault(key, (int(found["count"]), line))
    lost = [
        (number, key[1], line)
        for key, (number, line) in counted.items()
        if key[0] == "discards" and (pfc is None or (key[1] == PORT) is not bool(pfc[1]))
    ]
    if pfc is None or not lost:
        return
    number, priority, line = max(lost, key=lambda one: one[0])
    named = {found[1] for one in (pfc[0], line) if (found := _INTERFACE.search(one.command))}
    if not number or priority in pfc[1] or len(named) > 1:
        return
    if priority == PORT:
        value = f"{number} discarded by the port, of which no priority has flow control"
    else:
        value = f"{number} discarded on priority {priority}, which has no flow control"
    idle = [str(one) for one in pfc[1] if counted.get(("bytes", one), (1, line))[0] == 0]
    if idle:
        value += f"; priority {', '.join(idle)}, which has it, {CARRIED_NOTHING}"
    yield KnownFact(LOSSES, value, line.number, line.text.strip())
