"""How often the link of a port went down, and its symbol errors, to be compared with those of peers."""

from __future__ import annotations

from collections.abc import Iterable

from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel_log import lines
from gdrkit.facts.rdma import CLASS
from gdrkit.facts.supplied import not_collected
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact

COUNTERS = ("link_downed", "symbol_error")
"""Documentation/ABI/stable/sysfs-class-infiniband, counters. They rise until someone clears them, or the
driver is loaded anew: when that was, nothing shows."""
CLASSES = (100_000, 1_000, 10)
"""Steps of two orders of magnitude: a switch that was started again, or a longer uptime, explains less."""


@fact
def link_errors(node: Node, device: str, number: int) -> str:
    """What a port counted, each to the order of magnitude: `link_downed 10 or more`; "" for few or none.

    A counter that the driver does not have is left out. Raises EvidenceAbsent if it has none,
    EvidenceMissing if one is not known."""
    folder = f"{CLASS}/{device}/ports/{number}/counters"
    if not any(node.exists(f"{folder}/{name}") for name in COUNTERS):
        raise EvidenceAbsent(Missing(folder, MissingReason.ABSENT, f"ls {quoted(f'/{folder}')}"))
    found = []
    for name in COUNTERS:
        path = f"{folder}/{name}"
        try:
            count = whole_number(node.text(path).strip())
        except EvidenceAbsent:
            continue
        if count is None:
            raise not_collected(path, f"cat {quoted(f'/{path}')}")
        least = next((least for least in CLASSES if count >= least), 0)
        if least:
            found.append(f"{name} {least} or more")
    return ", ".join(found)


FLAPS = 3
"""Times that a link went down in one boot from which it is named: a cable that is moved, and a switch that
is started again, explain one each."""
_DOWN = regex(
    r"(?:mlx5_core|bnxt_en|ice) [0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7] (?P<name>[\w.-]{1,15}):"
    r" (?:NIC )?Link (?:is )?[Dd]own\b"
)
"""Sources: Linux drivers/net/ethernet/mellanox/mlx5/core/en_main.c, mlx5e_update_carrier();
broadcom/bnxt/bnxt.c, bnxt_report_link(); intel/ice/ice_main.c, ice_print_link_msg()."""


def link_downs(messages: Iterable[str]) -> dict[str, list[int]]:
    """Where messages of the kernel say that the link of an interface went down, by interface."""
    found: dict[str, list[int]] = {}
    for at, message in enumerate(messages):
        if down := _DOWN.search(message):
            found.setdefault(down["name"], []).append(at)
    return found


@fact
def flapping(node: Node) -> tuple[str, ...]:
    """The interfaces whose links went down again and again in this boot, to the order of magnitude. Raises
    EvidenceMissing without the kernel's log."""
    downs = link_downs(line.text for line in lines(node).lines)
    often = {name: len(found) for name, found in sorted(downs.items()) if len(found) >= FLAPS}
    least = {name: next(one for one in (*CLASSES, FLAPS) if count >= one) for name, count in often.items()}
    return tuple(f"{name} went down {count} or more times in this boot" for name, count in least.items())
