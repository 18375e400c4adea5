"""What a job's cost depends on of a machine: its GPUs, and the bandwidth of each path to the network."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.fabric.ceilings.chain import Chain, LatencyRange, Limit, PathName, chained
from gdrkit.fabric.ceilings.from_node import node_links as links_of_node
from gdrkit.fabric.ceilings.from_topology import node_links as links_of_topology
from gdrkit.fabric.ceilings.hops import hop_latency
from gdrkit.fabric.ceilings.interval import Interval, between, total
from gdrkit.fabric.ceilings.node_links import Attachment, NodeLinks, PairRoute
from gdrkit.fabric.ceilings.paths import PATHS, card_chain, chain, node_total, possible
from gdrkit.fabric.topology.graph import Topology
from gdrkit.facts.gpu import product_name
from gdrkit.facts.gpu_ids import INTEGRATED, SUPPORTED
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, if_missing


class PathRate(Struct, frozen=True):
    """A path between this node's GPUs and the network, in one direction."""

    name: PathName
    rate: Interval
    latency: LatencyRange  # of a small message over one hop
    limit: str = ""  # its tightest limit
    possible: bool = True  # false if the hardware does not support it; shown for what it would save


class JobMachine(Struct, frozen=True):
    """What a job's cost depends on. `missing` says why the links are not known; empty product: not known."""

    links: NodeLinks | None
    missing: str
    gpus: int
    product: str

    def paths(self, gpus: int) -> tuple[tuple[PathRate, ...], tuple[str, ...]]:
        """Every path with two known bounds for that many of its GPUs, and why the others are missing."""
        if self.links is None:
            return (), (f"paths of this node: {self.missing}",)
        return node_paths(self.links, gpus)


def of_node(node: Node) -> JobMachine:
    """A node's links, and its GPUs."""
    known = if_missing((), gpus, node)
    product = if_missing("", product_name, node, known[0]) if known else ""
    try:
        return JobMachine(links_of_node(node), "", len(known), product)
    except EvidenceMissing as error:
        return JobMachine(None, f"{error.missing.why.value}: {error.missing.ask}", len(known), product)


def of_topology(topology: Topology) -> JobMachine:
    """A saved topology's links, and its GPUs, whose product its PCI ids tell."""
    first = topology.gpus[0] if topology.gpus else None
    function = topology.by_address.get(first.address) if first else None
    device = function.device if function else ""
    product = (first.name if first else "") or (SUPPORTED | INTEGRATED).get(device, "")
    return JobMachine(links_of_topology(topology), "", len(topology.gpus), product)


def node_paths(machine: NodeLinks, gpus: int) -> tuple[tuple[PathRate, ...], tuple[str, ...]]:
    """Each GPU uses the card with the fastest path, and all of the card's ports, as NCCL spreads its
    channels; the node's network limits all GPUs together."""
    used = machine.gpus[:gpus]
    if not used or not machine.functions:
        return (), ("no GPU or no RDMA device of this node is known",)
    if all(function.down for function in machine.functions):
        return (), ("every port of this node is down",)
    integrated = any(gpu.attachment is Attachment.INTEGRATED for gpu in used)
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
        tightest = together.tightest
        if together.rate is None or together.rate.low_gb_per_s <= 0:
            missing.append(f"{path}: not known: {', '.join(together.unknown) or 'its lower bound'}")
        else:
            latency, limit = hop_latency(path, in_place=integrated), tightest.name if tightest else ""
            found.append(PathRate(path, together.rate, latency, limit, can))
    return tuple(found), tuple(missing)


def _best(machine: NodeLinks, address: str, path: PathName) -> Chain | None:
    routes = [route for route in machine.routes if route.gpu.address == address and route.function.active]
    chains = [_through_card(machine, route, path) for route in routes]
    known = [one for one in chains if one.rate is not None]
    return max(known, key=_bounds, default=None)


def _bounds(one: Chain) -> tuple[float, float]:
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
