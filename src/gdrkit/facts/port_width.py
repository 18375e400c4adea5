"""How many lanes the link of an RDMA port has."""

from __future__ import annotations

import re

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.rdma import CLASS
from gdrkit.facts.supplied import not_collected
from gdrkit.node import Node, fact


@fact
def port_lanes(node: Node, device: str, number: int) -> int:
    """The lanes of a port's link: 4 of `400 Gb/sec (4X NDR)`.

    Raises EvidenceMissing where only the rate is shown. Source: Linux drivers/infiniband/core/sysfs.c,
    rate_show()."""
    path = f"{CLASS}/{device}/ports/{number}/rate"
    text = node.text(path).strip()
    found = re.search(r"\((\d{1,2})X ", text)
    if found is None:
        raise not_collected(f"lanes of {device}/{number}", f"cat {quoted('/' + path)}")
    node.cite(path, text=text)
    return int(found[1])
