"""The document of `gdr fleet bench --json`, schema gdrkit.fleet-bench/1.

`pairs` has one row for each pair that was tried; every other section is computed from the rows.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class PairRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two nodes and the rate between them in 10**9 bytes per second, or why there is none."""

    nodes: tuple[str, str]  # the first one listened
    round: int  # from 1
    gb_per_s: float | None = None  # of messages to and fro, so in both directions
    streaming_gb_per_s: float | None = None  # of messages one after another, to the second node
    why: str = ""  # there is no rate
    node: str = ""  # the one that is known to be the reason


class SlowNode(Struct, frozen=True, kw_only=True):
    """A node that explains why pairs are slow."""

    node: str
    gb_per_s: float  # the median of its pairs
    slow: int  # of its pairs
    pairs: int  # with a rate


class SlowPair(Struct, frozen=True, kw_only=True):
    """A slow pair that no slow node explains."""

    nodes: tuple[str, str]
    gb_per_s: float


class PairFailure(Struct, frozen=True, kw_only=True):
    """Nodes, or pairs of nodes, without a rate for the same reason."""

    kind: Literal["node", "pair"]
    nodes: str  # hostlist
    count: int  # of nodes or pairs
    why: str


class FleetBench(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.fleet-bench/1"):
    """The complete result of `gdr fleet bench`."""

    started: str  # UTC, as 2026-11-22T23:31:05Z
    seconds: float
    complete: bool  # false if it was interrupted
    path: str  # verbs or tcp
    gpu: int | None  # CUDA ordinal at both ends; None is host memory
    device: str  # RDMA device at both ends; empty without one
    network: str  # in which the nodes reached each other; empty for that of ssh or Slurm
    size_bytes: int  # of a message
    rounds: int
    nodes: int
    measured: int  # pairs with a rate
    typical_gb_per_s: float | None  # half of the nodes reach it with a peer; None without any rate
    slow_below_gb_per_s: float | None
    reached: int  # pairs that are not slow
    slow_nodes: tuple[SlowNode, ...]  # the slowest first
    slow_pairs: tuple[SlowPair, ...]  # the slowest first
    failures: tuple[PairFailure, ...]  # those of nodes first, and of these the most common
    unmeasured: str  # hostlist of nodes that did not fail, but have no rate: their peers failed
    pairs: tuple[PairRow, ...]
