"""The highest bus bandwidth that nccl-tests can measure between nodes.

Bus bandwidth is the rate of data (algorithm bandwidth) times a factor of the operation, so that with a ring
it is the rate of the slowest link: NVIDIA/nccl-tests doc/PERFORMANCE.md. How much must cross a node's
boundary at least depends on the operation only. Where NVLink joins nodes (MNNVL), its domain takes the place
of the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.chain import Chain, Limit, chained
from gdrkit.fabric.ceilings.gpus import rates_of
from gdrkit.fabric.ceilings.interval import Interval, between
from gdrkit.fabric.ceilings.measured_rate import ROUNDING, MeasuredRate, judged, plateau, reading
from gdrkit.fabric.ceilings.node_links import Attachment, CommonPoint, LinkedGpu, NodeLinks
from gdrkit.fabric.ceilings.path_rates import path_rates
from gdrkit.facts.cable_halves import NCCL_TEST_GB_PER_S
from gdrkit.facts.gpu_ids import is_integrated_name
from gdrkit.formats.nccl_tests import NcclTest, Timing

NEAREST = (CommonPoint.SWITCH, CommonPoint.ROOT_COMPLEX, CommonPoint.UNKNOWN, CommonPoint.SOCKETS)
"""NCCL uses the NICs nearest to a GPU: src/graph/topo.cc, ncclTopoGetLocal()."""

TUNED_SHARE = 0.8
"""The lowest share of the network's ceiling that healthy runs of ring operations reach with at least 1 GiB:
4 and 8 nodes of 8 H100 with 400 GB/s of NICs reach 323.5 (all_gather, Voltage Park, "NCCL tests"), 330.9 and
365.8 (all_reduce, github.com/NVIDIA/nccl-tests/issues/309), 320; tuned fabrics reach 0.9 to 0.96."""
LARGE_BYTES = 1 << 30
RING_OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "sendrecv", "")
"""Operations for which such runs are published. "": not named, as a rule all_reduce."""

LARGEST_DOMAIN = 72
"""GPUs of one NVLink domain: GB200 NVL72, GB300 NVL72."""
DOMAIN_GB_PER_S = 900.0
"""NVLink 5 of a GB200 or GB300 in one direction, all 18 links: NVIDIA GB200 NVL72 datasheet."""
DOMAIN_SHARE = 0.75
"""What healthy runs inside one domain reach of that: 697 to 847 GB/s,
github.com/coreweave/nccl-tests/pull/43 and github.com/Azure/AI-benchmarking-guide."""


# -- how many GPUs and nodes took part, also where a paste leaves ranks out -------------------------

MOST_RANKS = 128
"""Two decimals of a rate of some hundred GB/s do not tell larger numbers of ranks apart."""


class RunShape(Struct, frozen=True):
    """The GPUs of a run, and how many there are on a node. None: not shown."""

    ranks: int | None
    per_node: int | None
    note: str = ""  # how it is known, if not from the list of ranks

    @property
    def nodes(self) -> int | None:
        if self.ranks is None or not self.per_node or self.ranks % self.per_node:
            return None
        return self.ranks // self.per_node

    def __str__(self) -> str:
        gpus = "GPUs not shown" if self.ranks is None else f"{self.ranks} GPUs"
        nodes = {None: "nodes not shown", 1: "1 node"}.get(self.nodes, f"{self.nodes} nodes")
        return f"{gpus} on {nodes}"


def shape_of(run: NcclTest, gpus: int) -> RunShape:
    """The shape of a run whose nodes have so many GPUs.

    The list of ranks counts if it is whole. Of a shortened one, the number follows from busbw / algbw."""
    per_host = Counter(rank.hostname for rank in run.ranks)
    highest = max((rank.rank for rank in run.ranks), default=-1) + 1
    if run.ranks and highest <= len(run.ranks):
        alike = len(set(per_host.values())) == 1
        return RunShape(len(run.ranks), per_host.most_common(1)[0][1] if alike or not gpus else gpus)
    ranks = ranks_by_ratio(run)
    if ranks is None or ranks < highest:
        return RunShape(None, None)
    shown = max((rank.device for rank in run.ranks), default=-1) + 1
    per_node = max(shown, gpus) if ranks > max(shown, gpus) else None
    how = f"busbw / algbw is that of {ranks} GPUs; the text does not list them all"
    if per_node:
        how += f", {per_node} on each node is assumed"
    return RunShape(ranks, per_node, how)


def _passes(ranks: int) -> float:
    return (ranks - 1) / ranks


FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda ranks: 2 * _passes(ranks),
    **dict.fromkeys(("all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter"), _passes),
}
"""busbw / algbw by the number of ranks. Other operations have 1."""


def ranks_by_ratio(run: NcclTest) -> int | None:
    """The number of ranks for which busbw / algbw is what the run prints, within its rounding, at every
    size; None if several fit, or for an operation without such a factor.

    Source of the factors: NVIDIA/nccl-tests doc/PERFORMANCE.md."""
    factor = FACTORS.get(run.program)
    if factor is None:
        return None
    timings = [row.best for row in run.rows if row.best is not None]
    known = [timing for timing in timings if _fits(timing, 0.0) is not None]
    fitting = [
        ranks
        for ranks in range(2, MOST_RANKS + 1)
        if known and all(_fits(timing, factor(ranks)) for timing in known)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _fits(timing: Timing, factor: float) -> bool | None:
    """Whether a factor leads from one rate to the other, both rounded to two decimals; None without
    rates."""
    alg, bus = timing.algorithm_gb_per_s, timing.bus_gb_per_s
    if not alg or not bus:
        return None
    return abs(alg * factor - bus) <= 0.005 * (1 + factor) + 1e-9


# -- a run and its ceiling --------------------------------------------------------------------------


def compare(machine: NodeLinks, run: NcclTest, log: str = "") -> MeasuredRate:
    """One run of nccl-tests compared with the ceiling of its nodes, all assumed to be like this one. `log`:
    what the log of the run shows."""
    shape = shape_of(run, len(machine.gpus))
    operation = run.program or "an unnamed operation of nccl-tests"
    what = f"{operation}, {shape}"
    rates = {r.size_bytes: r.best.bus_gb_per_s for r in run.rows if r.best and r.best.bus_gb_per_s}
    gb_per_s, notes = plateau({size: rate for size, rate in rates.items() if rate is not None})
    notes += (shape.note,) if shape.note else ()
    if run.average_bus_gb_per_s and len(rates) > 1:
        average = f"{run.average_bus_gb_per_s:g} GB/s"
        notes += (f"No ceiling applies to the average over all sizes that the run prints, {average}.",)
    if gb_per_s is None:
        return reading(what, sentences=notes)
    if run.alone:
        alone = "Every process is rank 0: each ran alone, as nccl-tests do if built without MPI (MPI=1)."
        return reading(what, gb_per_s, sentences=(*notes, alone))
    if shape.nodes is None or shape.nodes < 2:
        inside = "One node: this measures the paths between its GPUs, not the network."
        cut = "The output does not show which nodes took part."
        return reading(what, gb_per_s, sentences=(*notes, inside if shape.nodes else cut))
    found = _between_nodes(machine, run, shape, what, gb_per_s, notes)
    if found.ceiling is None or gb_per_s >= found.ceiling.low_gb_per_s:
        return found
    rerun = FIND_OUT if run.logged else AGAIN + FIND_OUT
    return replace(found, sentences=(*found.sentences, f"{log or rerun} {NAMED}"))


AGAIN = "Run it again with NCCL_DEBUG=INFO: "
FIND_OUT = "`gdr nccl LOG` shows over which NICs the traffic goes, and how."
"""What to do about a run that is slower than tuned ones."""
NAMED = "`gdr config nccl-env` names those of this node."


def _between_nodes(
    machine: NodeLinks,
    run: NcclTest,
    shape: RunShape,
    what: str,
    gb_per_s: float,
    notes: tuple[str, ...],
) -> MeasuredRate:
    first = run.hosts[0] if run.hosts else ""
    used = [_gpu(machine, rank.device) for rank in run.ranks if rank.hostname == first]
    whole = len(run.ranks) == shape.ranks
    chain = network(machine, tuple(gpu for gpu in used if gpu is not None) if whole else ())
    bounds = chain.rate
    if _joins_nodes(machine, run):
        nics = bounds.high_gb_per_s if bounds is not None else 0.0
        if gb_per_s > nics * ROUNDING or (shape.ranks or 0) > LARGEST_DOMAIN:
            domain = _domain(run, shape, chain)
            return judged(what, gb_per_s, domain.rate, domain, notes)
        notes += (
            "NVLink may join these nodes: in one domain runs reach at least "
            f"{DOMAIN_GB_PER_S * DOMAIN_SHARE:.0f} GB/s. If they are in one, NCCL did not use it: "
            "`gdr nccl` on the log of the job shows whether it did (MNNVL 1).",
        )
    if bounds is None:
        return judged(what, gb_per_s, None, None, notes)
    ceiling, more_notes = _ceiling(run, _tuned(run, bounds), shape, gb_per_s)
    if gb_per_s <= ceiling.high_gb_per_s * ROUNDING:
        more_notes += _fitting(machine, run, shape, gb_per_s)
    return judged(what, gb_per_s, ceiling, chain.tightest, (*notes, *more_notes))


def _tuned(run: NcclTest, ring: Interval) -> Interval:
    """The network's ceiling with the lower bound of whole collectives; the lower bound is 0 where no healthy
    run of that kind is known."""
    large = max((row.size_bytes for row in run.rows), default=0) >= LARGE_BYTES
    if run.program == "sendrecv":
        return ring
    if not large or run.program not in RING_OPERATIONS:
        return between(0.0, ring.high_gb_per_s)
    low = ring.high_gb_per_s * TUNED_SHARE
    if len(run.hosts) == 2 and all(is_integrated_name(rank.product) for rank in run.ranks):
        low = max(low, NCCL_TEST_GB_PER_S)
    return between(min(ring.low_gb_per_s, low), ring.high_gb_per_s)


# -- which paths such a rate fits -------------------------------------------------------------------

PATH_WORDS = {"socket": "socket over one port"}


def _fitting(machine: NodeLinks, run: NcclTest, shape: RunShape, gb_per_s: float) -> tuple[str, ...]:
    """A sentence on which of the node's paths a rate fits as that of a tuned run; where no lower bound of
    tuned runs is known, only on those that are too slow for it. None where that tells nothing.

    A slow run of one path looks as a tuned run of another, so a rate never shows which one was used."""
    known = path_rates(machine, shape.per_node or 1)
    bounds = {
        PATH_WORDS.get(path.name, path.name): _ceiling(run, _tuned(run, path.rate), shape, gb_per_s)[0]
        for path in known
        if path.possible
    }
    too_slow = {name for name, one in bounds.items() if gb_per_s > one.high_gb_per_s * ROUNDING}
    if not all(one.low_gb_per_s for one in bounds.values()):
        excluded = _listed(bounds, too_slow)
        return (f"It is faster than these paths: {excluded}.",) if excluded else ()
    fits = {name for name, one in bounds.items() if name not in too_slow and gb_per_s >= one.low_gb_per_s}
    others = _listed(bounds, bounds.keys() - fits)
    if not fits:
        return (f"It fits a tuned run of none of these paths: {others}.",) if others else ()
    rest = f"; not {others}" if others else ""
    alike = ". The rate does not tell them apart" if len(fits) > 1 else ""
    return (f"It fits a tuned run of {_listed(bounds, fits)}{rest}{alike}.",)


def _listed(bounds: Mapping[str, Interval], names: Set[str]) -> str:
    return ", ".join(f"{name} ({one})" for name, one in bounds.items() if name in names)


# -- NVLink between nodes --------------------------------------------------------------------------


def _joins_nodes(machine: NodeLinks, run: NcclTest) -> bool:
    """Whether NVLink may join the nodes of a run: by the products in its list, else by this node's GPUs, two
    of which share a Grace."""
    named = [rates for rank in run.ranks if (rates := rates_of(rank.product)) is not None]
    if named:
        return all(rates.joins_nodes for rates in named)
    return bool(machine.gpus) and all(gpu.attachment is Attachment.C2C_SHARED for gpu in machine.gpus)


def _domain(run: NcclTest, shape: RunShape, nics: Chain) -> Limit:
    """The limit of NVLink in a domain; between domains, of the NICs of all nodes of a domain. With
    multicast a GPU sends and receives the data once in an all_reduce."""
    n = shape.ranks or LARGEST_DOMAIN
    most = 2 * (n - 1) / n if run.program in ("all_reduce", "") else 1.0
    high, low = DOMAIN_GB_PER_S * most, DOMAIN_GB_PER_S * DOMAIN_SHARE
    if n <= LARGEST_DOMAIN:
        words = f"NVLink in one domain, {DOMAIN_GB_PER_S:g} GB/s in one direction"
        return Limit("nvlink", f"{n} GPUs", words, between(low, high), ())
    if nics.rate is not None:
        together = nics.rate.high_gb_per_s * LARGEST_DOMAIN / (shape.per_node or 1)
        high, low = min(high, together), min(low, nics.rate.low_gb_per_s)
    words = "NVLink, and between domains the NICs of all nodes of a domain"
    return Limit("nvlink", f"{n} GPUs", words, between(0.0 if nics.rate is None else low, high), ())


# -- the network -----------------------------------------------------------------------------------


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
    pairs = [pair for pair in machine.pairs if pair.gpu.address == gpu.address and pair.function.active]
    best = min((NEAREST.index(pair.common_point) for pair in pairs), default=0)
    return [pair.function.name for pair in pairs if NEAREST.index(pair.common_point) == best]


def _gpu(machine: NodeLinks, index: int) -> LinkedGpu | None:
    """The GPU with that CUDA index, which follows addresses if all GPUs are alike."""
    gpus: list[LinkedGpu] = sorted(machine.gpus, key=lambda gpu: gpu.address)
    return gpus[index] if index < len(gpus) else None


def _ceiling(
    run: NcclTest, ring: Interval, shape: RunShape, gb_per_s: float
) -> tuple[Interval, tuple[str, ...]]:
    """The highest possible bus bandwidth, from what must cross each node's boundary; of n ranks, g are here.

    A ring carries the bus bandwidth over every link, so the network's own ceiling applies to all operations
    that use one. Without a ring less crosses: for all_reduce, once each way in a tree between two nodes or
    with switches that reduce, 2 (n - 1) / n; for all_gather, reduce_scatter, gather and scatter, only what
    other nodes hold, (n - 1) / (n - g). alltoall never uses a ring: the same for each of g ranks."""
    n, g = shape.ranks or 2, shape.per_node or 1
    gather = (n - 1) / (n - g)
    if run.program in ("alltoall", "alltoallv"):
        return ring.scaled(gather / g), ()
    if gb_per_s <= ring.high_gb_per_s:
        return ring, ()
    high = ring.high_gb_per_s
    if run.program in ("all_reduce", "all_reduce_group", ""):
        algorithm = "a tree, which crosses it once" if shape.nodes == 2 else "switches that reduce (SHARP)"
        most = 2 * (n - 1) / n
        above = f"busbw above the {high:.2f} GB/s of the network"
        note = f"{above} is normal on {shape.nodes} nodes with {algorithm}"
    elif run.program in ("all_gather", "reduce_scatter", "gather", "scatter"):
        most = gather
        note = f"busbw above the {high:.2f} GB/s of the network is normal without a ring"
    else:
        return ring, ()
    return ring.scaled(1.0, most), (f"{note}: up to {high * most:.2f}.",)
