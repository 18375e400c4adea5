"""How many lanes the link of an RDMA port has, and its rate beside those of other ports."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping

from gdrkit.evidence.quoting import quoted
from gdrkit.facts.rdma import CLASS, parse_rate, parse_state
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


@fact
def active_rate(node: Node, device: str, number: int) -> float:
    """The rate of a port in Gbit/s; 0 if it is not active. An excerpt that lacks its link layer has it."""
    folder = f"{CLASS}/{device}/ports/{number}"
    active = parse_state(node.text(f"{folder}/state")) == "ACTIVE"
    return parse_rate(node.text(f"{folder}/rate")) if active else 0.0


LEAST_ALIKE = 3
"""Ports that agree before another one stands out: of fewer, each may have its own purpose."""


def lone(values: Mapping[str, Hashable]) -> str:
    """The name whose value alone differs from that of all others, which agree; "" if there is none."""
    counts = Counter(values.values())
    if len(values) <= LEAST_ALIKE or len(counts) != 2:
        return ""
    return next((name for name, value in values.items() if counts[value] == 1), "")


def lone_slow(rates: Mapping[str, float]) -> str:
    """The name that alone has a lower rate than all others, which agree; "" if there is none."""
    name = lone(rates)
    return name if name and rates[name] == min(rates.values()) else ""
