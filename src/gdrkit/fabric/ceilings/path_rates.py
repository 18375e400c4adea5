"""The rate of each path between a node's GPUs and the network, for a job that uses some of its GPUs."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.ceilings.chain import Chain, LatencyRange, PathName, chained
from gdrkit.fabric.ceilings.hops import hop_latency
from gdrkit.fabric.ceilings.interval import Interval, least, total
from gdrkit.fabric.ceilings.node_links import Attachment, LinkedGpu, NodeLinks, PairLinks
from gdrkit.fabric.ceilings.paths import card_chain, chain, node_total
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


def product_of_node(node: Node) -> str:
    """The product of a node's first GPU; empty if it is not known."""
    known = if_missing((), gpus, node)
    return if_missing("", product_name, node, known[0]) if known else ""


def product_of_topology(topology: Topology) -> str:
    """The same of a saved topology, which may have only the PCI id."""
    if not topology.gpus:
        return ""
    first = topology.gpus[0]
    function = topology.by_address.get(first.address)
    return first.name or (SUPPORTED | INTEGRATED).get(function.device if function else "", "")


def path_rates(machine: NodeLinks, gpus: int) -> tuple[PathRate, ...]:
    """The direct path, what NCCL does without it, and TCP, each for that many GPUs. A path without two known
    bounds is left out.

    Each GPU uses the card with the fastest path, and all of the card's ports, as NCCL spreads its channels;
    the node's network limits all GPUs together."""
    used = machine.gpus[:gpus]
    # a GPU without memory of its own has nothing to copy out of; its buffers are in host memory
    integrated = any(gpu.attachment is Attachment.INTEGRATED for gpu in used)
    refused = integrated or any(gpu.refusal for gpu in used)
    names: tuple[PathName, ...] = ("direct", "host-mapped" if integrated else "staged", "socket")
    shared = node_total(machine).limits if len(used) > 1 else ()  # one GPU has a card to itself
    found = []
    for path in names:
        limits = [limit for gpu in used if (limit := _fastest(machine, gpu, path))]
        if not limits or len(limits) < len(used):
            continue
        together = (total(rate for rate, _ in limits), limits[0][1])
        bounds = [together, *((limit.rate, limit.name) for limit in shared)]
        rate = least(interval for interval, _ in bounds)
        if rate.low_gb_per_s > 0:
            tightest = min(bounds, key=lambda bound: bound[0].high_gb_per_s)[1]
            latency = hop_latency(path, in_place=integrated)
            found.append(PathRate(path, rate, latency, tightest, path != "direct" or not refused))
    return tuple(found)


def _fastest(machine: NodeLinks, gpu: LinkedGpu, path: PathName) -> tuple[Interval, str] | None:
    """The rate of a GPU's best path over any card in use, and its tightest limit; None if none is known."""
    pairs = (pair for pair in machine.pairs if pair.gpu == gpu and pair.function.active)
    chains = (_through_card(machine, pair, path) for pair in pairs)
    known = [
        (one.rate, one.tightest.name) for one in chains if one.rate and one.tightest and not one.unknown
    ]
    return max(known, key=lambda one: (one[0].low_gb_per_s, one[0].high_gb_per_s), default=None)


def _through_card(machine: NodeLinks, pair: PairLinks, path: PathName) -> Chain:
    """The pair's limits, with those of the whole card (all functions and ports) in place of the NIC's
    own."""
    whole = chain(machine, pair, path)
    if path == "socket":  # a TCP connection uses one port
        return whole
    card = card_chain(machine.cards[pair.function.card])
    kept = tuple(limit for limit in whole.limits if limit.name not in ("nic-link", "port"))
    names = {f"PCIe link of {pair.function.name}", f"port of {pair.function.name}"}
    unknown = tuple(word for word in whole.unknown if word not in names) + card.unknown
    return chained(path, kept + card.limits, unknown)
