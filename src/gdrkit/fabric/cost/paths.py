"""The time of one collective on each path to the network, by NCCL's own tuning model.

Source: NCCL 2.30.7 src/graph/tuning.cc, ncclTunerConstantsDefaults and ncclTopoTuneModel, for the lower
bounds; a measurement for the upper ones. LL and Simple are modelled; LL128 is between them. NCCL's constants
do not cover staging: it is assumed to add NCCL's latency of a PCIe hop at each end, which is our
inference."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.ceilings.chain import Chain, LatencyRange, PathName
from gdrkit.fabric.cost.layout import RankGroup

LAUNCH_US = (0.0, 6.6)
"""The time before a collective moves data. High: baseLatencies, Ring/LL. Low: captured in a CUDA graph."""

HOP_LL_US, HOP_SIMPLE_US = (5.0, 14.0), (14.0, 30.0)
"""One hop between nodes. Low: hwLatencies NET, Tree; with one rank per node NCCL uses it for rings, too.
High: derived from two DGX Sparks, 30 to 35 us for an all-reduce of 8 to 16 KiB and 65 to 68 for 64 KiB,
with NCCL 2.31.2 over host memory: github.com/NVIDIA/dgx-spark-playbooks/pull/103."""

HOP_INSIDE_LL_US, HOP_INSIDE_SIMPLE_US = (0.6, 1.0), (3.4, 5.7)
"""One hop inside a node: hwLatencies Ring, NVLINK and PCI."""

LL_SHARE_RING, LL_SHARE_TREE = 0.5, 1 / 3.8
TREE_SHARE = 0.92
"""The share of the link that a protocol reaches: `busBw * .5`, `busBw * 1.0 / 3.8`, `busBw * .92`."""

LL_SHARE_SLOW = 0.088
"""The share that LL reached on those two DGX Sparks, from 8 KiB to 64 KiB: few channels, each of them
slow."""

EXTRA_HOP_US: dict[PathName, tuple[float, float]] = {
    "direct": (0.0, 0.0),
    "host-mapped": (0.0, 2.0),  # a GPU with its own memory reads over PCIe: LL's 1.0 at each end
    "staged": (2.0, 11.4),  # hwLatencies PCI, Ring: LL 1.0 to Simple 5.7, at each end
    "socket": (8.0, 50.0),  # assumed: a TCP round trip of 20 to 110 us between hosts; not measured
}
"""Compared with a published measurement. osu_bw of one byte from GPU memory between two DGX A100
(github.com/openucx/ucx/issues/6206) sends a message each 1.25 us directly, each 2.7 if the CPU copies with
GDRCopy, and each 12.5 with cudaMemcpy. So one staged end adds 1.5 to 11.3 us; NCCL's kernels, which stage
for it, are between."""


class PathCost(Struct, frozen=True):
    """A path between this node's GPUs and the network, in one direction."""

    name: PathName
    bandwidth_low_gb_per_s: float
    bandwidth_high_gb_per_s: float
    latency_low_us: float  # of a hop, in addition to a hop on the direct path
    latency_high_us: float
    source: str
    limit: str = ""  # its tightest limit
    possible: bool = True  # false if the hardware does not support it; shown for what it would save


class Span(Struct, frozen=True):
    """Seconds from best to worst."""

    low_s: float = 0.0
    high_s: float = 0.0

    def __add__(self, other: Span) -> Span:
        return Span(self.low_s + other.low_s, self.high_s + other.high_s)

    def times(self, count: float) -> Span:
        return Span(self.low_s * count, self.high_s * count)

    @property
    def middle_s(self) -> float:
        """The geometric mean, since the bounds differ by factors."""
        return float((self.low_s * self.high_s) ** 0.5)


def path_cost(chain: Chain, *, possible: bool = True, in_place: bool = False) -> PathCost | None:
    """The cost of a path from its ceilings; None without a known lower bound. `in_place`: the GPU uses host
    memory as its own, so host-mapped buffers add no latency."""
    bounds = chain.rate
    if bounds is None or bounds.low_gb_per_s <= 0:
        return None
    low, high = _extra_hop(chain.path, in_place)
    tightest = chain.tightest
    limit = f"{tightest.name}: {tightest.description}" if tightest else ""
    return PathCost(
        chain.path,
        bounds.low_gb_per_s,
        bounds.high_gb_per_s,
        low,
        high,
        "ceilings of this node",
        limit,
        possible,
    )


def _extra_hop(path: PathName, in_place: bool) -> tuple[float, float]:
    return EXTRA_HOP_US["direct" if in_place and path == "host-mapped" else path]


def hop_latency(path: PathName, *, in_place: bool = False) -> LatencyRange:
    """The time of a small message over one hop of NCCL, with LL, from GPU to GPU."""
    extra = _extra_hop(path, in_place)
    return LatencyRange(HOP_LL_US[0] + extra[0], HOP_LL_US[1] + extra[1])


def given_path(name: str, low_gb_per_s: float, high_gb_per_s: float, source: str) -> PathCost:
    """A path with a given bandwidth. Raises KeyError for an unknown name of a path."""
    known = {str(path): path for path in EXTRA_HOP_US}
    path = known[name]
    return PathCost(path, low_gb_per_s, high_gb_per_s, *EXTRA_HOP_US[path], source)


def ring_bytes(group: RankGroup, payload: float, passes: int) -> float:
    """Bytes that leave a node in one ring collective: each pass moves (n-1)/n of the payload over every
    link.

    `passes` is 2 for all-reduce, 1 for all-gather and reduce-scatter: nccl-tests doc/PERFORMANCE.md."""
    return passes * (group.ranks - 1) / group.ranks * payload


def tree_bytes(group: RankGroup, payload: float) -> float:
    """Bytes that leave a node in a tree all-reduce: the payload once with two nodes, twice with more, where
    each node is a leaf of one of two trees and an inner node of the other.

    Source: NCCL src/graph/trees.cc, ncclGetDtree."""
    return payload if group.nodes == 2 else 2 * payload


def all_reduce(path: PathCost, group: RankGroup, payload: float) -> Span:
    """Seconds of the fastest combination of ring or tree with LL or Simple, as NCCL's tuner picks."""
    if group.nodes == 1:
        return Span()
    ring = _ring(path, group, payload, passes=2)
    tree = _tree(path, group, payload)
    return Span(min(ring.low_s, tree.low_s), min(ring.high_s, tree.high_s))


def ring_pass(path: PathCost, group: RankGroup, payload: float) -> Span:
    """Seconds of an all-gather or reduce-scatter of a whole payload."""
    return _ring(path, group, payload, passes=1) if group.nodes > 1 else Span()


def point_to_point(path: PathCost, payload: float, messages: int = 1) -> Span:
    """Seconds of messages sent back to back: one latency, all bytes."""
    inside = max(0, messages - 1) * 1e-6  # getNetOverhead: 1 us to post each further one
    low = LAUNCH_US[0] + HOP_LL_US[0] + path.latency_low_us
    high = LAUNCH_US[1] + HOP_SIMPLE_US[1] + path.latency_high_us
    return Span(
        low * 1e-6 + inside + payload / path.bandwidth_high_gb_per_s * 1e-9,
        high * 1e-6 + inside + payload / path.bandwidth_low_gb_per_s * 1e-9,
    )


def _ring(path: PathCost, group: RankGroup, payload: float, passes: int) -> Span:
    steps, between = passes * (group.ranks - 1), passes * (group.nodes - 1)
    return _collective(
        path, ring_bytes(group, payload, passes), between, steps - between, LL_SHARE_RING, 1.0
    )


def _tree(path: PathCost, group: RankGroup, payload: float) -> Span:
    hops = 2 * (group.nodes - 1).bit_length()
    inside = 2 * (group.per_node - 1)
    return _collective(path, tree_bytes(group, payload), hops, inside, LL_SHARE_TREE, TREE_SHARE)


def _collective(
    path: PathCost, moved: float, between: int, inside: int, ll_share: float, simple_share: float
) -> Span:
    low, high = [], []
    for hop, near, share, slow in (
        (HOP_LL_US, HOP_INSIDE_LL_US, ll_share, LL_SHARE_SLOW),
        (HOP_SIMPLE_US, HOP_INSIDE_SIMPLE_US, simple_share, simple_share),
    ):
        best = LAUNCH_US[0] + between * (hop[0] + path.latency_low_us) + inside * near[0]
        worst = LAUNCH_US[1] + between * (hop[1] + path.latency_high_us) + inside * near[1]
        low.append(best * 1e-6 + moved / (path.bandwidth_high_gb_per_s * share) * 1e-9)
        high.append(worst * 1e-6 + moved / (path.bandwidth_low_gb_per_s * slow) * 1e-9)
    return Span(min(low), min(high))
