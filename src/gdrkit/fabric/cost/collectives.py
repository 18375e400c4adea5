"""The highest bus bandwidth that nccl-tests can measure between nodes.

Bus bandwidth is the rate of data (algorithm bandwidth) times a factor of the operation, so that with a ring
it is the rate of the slowest link: NVIDIA/nccl-tests doc/PERFORMANCE.md. How much must cross a node's
boundary at least depends on the operation only."""

from __future__ import annotations

from collections import Counter

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.chain import Chain, chained
from gdrkit.fabric.ceilings.interval import Interval
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate, judged, plateau, reading
from gdrkit.fabric.ceilings.node_links import CommonPoint, LinkedGpu, NodeLinks
from gdrkit.formats.nccl_tests import NcclTest

NEAREST = (CommonPoint.SWITCH, CommonPoint.ROOT_COMPLEX, CommonPoint.UNKNOWN, CommonPoint.SOCKETS)
"""NCCL uses the NICs nearest to a GPU: src/graph/topo.cc, ncclTopoGetLocal()."""


def compare(machine: NodeLinks, run: NcclTest) -> MeasuredRate:
    """One run of nccl-tests compared with the ceiling of its nodes, all assumed to be like this one."""
    per_host = Counter(rank.hostname for rank in run.ranks)
    nodes = "1 node" if len(per_host) == 1 else f"{len(per_host)} nodes" if per_host else "nodes not shown"
    operation = run.program or "an unnamed operation of nccl-tests"
    what = f"{operation}, {len(run.ranks)} GPUs on {nodes}"
    rates = {r.size_bytes: r.best.bus_gb_per_s for r in run.rows if r.best and r.best.bus_gb_per_s}
    gb_per_s, notes = plateau({size: rate for size, rate in rates.items() if rate is not None})
    if run.average_bus_gb_per_s and len(rates) > 1:
        average = f"{run.average_bus_gb_per_s:g} GB/s"
        notes += (f"No ceiling applies to the average over all sizes that the run prints, {average}.",)
    if gb_per_s is None:
        return reading(what, sentences=notes)
    if run.alone:
        alone = "Every process is rank 0: each ran alone, as nccl-tests do if built without MPI (MPI=1)."
        return reading(what, gb_per_s, sentences=(*notes, alone))
    if len(per_host) < 2:
        inside = "One node: this measures the paths between its GPUs, not the network."
        cut = "The output does not show which nodes took part."
        return reading(what, gb_per_s, sentences=(*notes, inside if per_host else cut))
    used = [_gpu(machine, rank.device) for rank in run.ranks if rank.hostname == run.hosts[0]]
    chain = network(machine, tuple(gpu for gpu in used if gpu is not None))
    bounds = chain.rate
    if bounds is None:
        return judged(what, gb_per_s, None, None, notes)
    ceiling, more_notes = _ceiling(run, bounds, max(per_host.values()), gb_per_s)
    return judged(what, gb_per_s, ceiling, chain.tightest, (*notes, *more_notes))


def network(machine: NodeLinks, gpus: tuple[LinkedGpu, ...]) -> Chain:
    """The limits of these GPUs' traffic to other nodes, over the NICs nearest to each of them."""
    gpus = gpus or machine.gpus
    names = {name for gpu in gpus for name in _nearest(machine, gpu)}
    functions = tuple(f for f in machine.functions if f.name in names) or machine.functions
    part = NodeLinks(gpus, functions)
    whole = paths.node_total(part)
    cards = tuple(part.cards.values())
    if len(cards) != 1:
        return whole
    one = paths.card_chain(cards[0])  # shows link and port, which the total does not
    links = tuple(limit for limit in whole.limits if limit.name == "gpu-links")
    return chained("direct", (*one.limits, *links), one.unknown)


def _nearest(machine: NodeLinks, gpu: LinkedGpu) -> list[str]:
    routes = [
        route for route in machine.routes if route.gpu.address == gpu.address and route.function.active
    ]
    best = min((NEAREST.index(route.common_point) for route in routes), default=0)
    return [route.function.name for route in routes if NEAREST.index(route.common_point) == best]


def _gpu(machine: NodeLinks, index: int) -> LinkedGpu | None:
    """The GPU with that CUDA index, which follows addresses if all GPUs are alike."""
    gpus: list[LinkedGpu] = sorted(machine.gpus, key=lambda gpu: gpu.address)
    return gpus[index] if index < len(gpus) else None


def _ceiling(run: NcclTest, ring: Interval, g: int, gb_per_s: float) -> tuple[Interval, tuple[str, ...]]:
    """The highest possible bus bandwidth, from what must cross each node's boundary; of n ranks, g are here.

    A ring carries the bus bandwidth over every link, so the network's own ceiling applies to all operations
    that use one. Without a ring less crosses: for all_reduce, once each way in a tree between two nodes or
    with switches that reduce, 2 (n - 1) / n; for all_gather, reduce_scatter, gather and scatter, only what
    other nodes hold, (n - 1) / (n - g). alltoall never uses a ring: the same for each of g ranks."""
    n = len(run.ranks)
    gather = (n - 1) / (n - g)
    if run.program in ("alltoall", "alltoallv"):
        return ring.scaled(gather / g), ()
    if gb_per_s <= ring.high_gb_per_s:
        return ring, ()
    high = ring.high_gb_per_s
    if run.program in ("all_reduce", "all_reduce_group", ""):
        nodes = len(run.hosts)
        algorithm = "a tree, which crosses it once" if nodes == 2 else "switches that reduce (SHARP)"
        most = 2 * (n - 1) / n
        note = f"busbw above the {high:.2f} GB/s of the network is normal on {nodes} nodes with {algorithm}"
    elif run.program in ("all_gather", "reduce_scatter", "gather", "scatter"):
        most = gather
        note = f"busbw above the {high:.2f} GB/s of the network is normal without a ring"
    else:
        return ring, ()
    return ring.scaled(1.0, most), (f"{note}: up to {high * most:.2f}.",)
