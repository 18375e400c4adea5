"""How often the link of a port went down, and its symbol errors, to be compared with those of peers."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.rdma import CLASS
from gdrkit.facts.supplied import not_collected
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
