"""The bandwidth of a node on each path, for as many of its GPUs as a job uses."""

from __future__ import annotations

from gdrkit.fabric.ceilings.chain import Chain, Limit, PathName, chained
from gdrkit.fabric.ceilings.interval import between, total
from gdrkit.fabric.ceilings.node_links import Attachment, NodeLinks, PairRoute
from gdrkit.fabric.ceilings.paths import PATHS, card_chain, chain, node_total, possible
from gdrkit.fabric.cost.paths import PathCost, path_cost


def node_paths(machine: NodeLinks, gpus: int) -> tuple[tuple[PathCost, ...], tuple[str, ...]]:
    """Every path with two known bounds, and why the others are missing.

    Each GPU uses the card with the fastest path, and all of the card's ports, as NCCL spreads its channels;
    the node's network limits all GPUs together."""
    used = machine.gpus[:gpus]
    if not used or not machine.functions:
        return (), ("no GPU or no RDMA device of this node is known",)
    if all(function.down for function in machine.functions):
        return (), ("every port of this node is down",)
    found, missing = [], []
    for path in PATHS:
        chains = [_best(machine, gpu.address, path) for gpu in used]
        known = [one for one in chains if one is not None]
        if len(known) < len(used):
            missing.append(f"{path}: not enough is known of this node's RDMA devices")
            continue
        together = _together(machine, path, known)
        can = all(path in possible(route) for route in machine.routes if route.gpu in used)
        if not can and path != "direct":  # only the direct path is shown although impossible, for its worth
            continue
        integrated = any(gpu.attachment is Attachment.INTEGRATED for gpu in used)
        cost = path_cost(together, possible=can, in_place=integrated)
        if cost is None:
            missing.append(f"{path}: not known: {', '.join(together.unknown) or 'its lower bound'}")
        else:
            found.append(cost)
    return tuple(found), tuple(missing)


def _best(machine: NodeLinks, address: str, path: PathName) -> Chain | None:
    routes = [route for route in machine.routes if route.gpu.address == address and route.function.active]
    chains = [_through_card(machine, route, path) for route in routes]
    known = [one for one in chains if one.rate is not None]
    return max(known, key=_rank, default=None)


def _rank(one: Chain) -> tuple[float, float]:
    bounds = one.rate or between(0.0, 0.0)
    return bounds.low_gb_per_s, bounds.high_gb_per_s


def _through_card(machine: NodeLinks, route: PairRoute, path: PathName) -> Chain:
    """The pair's limits, with those of the whole card (all functions and ports) in place of the NIC's
    own."""
    pair = chain(machine, route, path)
    if path == "socket":  # TCP: connections use one port
        return pair
    card = card_chain(machine.cards[route.function.card])
    kept = tuple(limit for limit in pair.limits if limit.name not in ("nic-link", "port"))
    names = {f"PCIe link of {route.function.name}", f"port of {route.function.name}"}
    unknown = tuple(word for word in pair.unknown if word not in names) + card.unknown
    return chained(path, kept + card.limits, unknown)


def _together(machine: NodeLinks, path: PathName, chains: list[Chain]) -> Chain:
    if len(chains) == 1:
        return chains[0]
    bounds = [one.rate for one in chains if one.rate is not None]
    each = chains[0].tightest
    description = f"{len(chains)} GPUs, each {each.name if each else '?'}"
    limits = (
        Limit("gpus-together", f"{len(chains)} GPUs", description, total(bounds), ()),
        *node_total(machine).limits,
    )
    unknown = tuple(dict.fromkeys(word for one in chains for word in one.unknown))
    return chained(path, limits, unknown)
