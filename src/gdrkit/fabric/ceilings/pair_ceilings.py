"""The ceiling of each GPU-NIC pair, for the report of a node."""

from __future__ import annotations

from gdrkit.fabric.ceilings.from_node import node_links
from gdrkit.fabric.ceilings.node_links import NodeLinks, PairRoute
from gdrkit.fabric.ceilings.paths import chain, possible
from gdrkit.node import Node, if_missing
from gdrkit.report.document import Ceiling


def ceilings(node: Node) -> dict[tuple[str, str], Ceiling]:
    """The ceilings by GPU and RDMA device, each of the best path that the hardware has (direct if possible).

    Pairs whose ceiling is not known are left out, as are virtual functions, which share their port's
    rate."""
    found = if_missing(None, node_links, node)
    by_route = ((route, _ceiling(found, route)) for route in found.routes) if found else ()
    return {(r.gpu.address, r.function.name): ceiling for r, ceiling in by_route if ceiling is not None}


def _ceiling(machine: NodeLinks, route: PairRoute) -> Ceiling | None:
    limits = chain(machine, route, possible(route)[0])
    interval, tightest = limits.rate, limits.tightest
    if interval is None or tightest is None:
        return None
    return Ceiling(
        low_gb_per_s=round(interval.low_gb_per_s, 2),
        high_gb_per_s=round(interval.high_gb_per_s, 2),
        tightest=tightest.name,
        shared_with=tuple(tightest.shared_with),
    )
