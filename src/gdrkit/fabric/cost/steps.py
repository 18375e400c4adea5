"""What a decode step, a prompt and a training step read, compute and send, and how long that takes.

A time on the network is the bytes that leave a node over the path's rate, and the hops of each call. Ranks
that communicate most are closest: tensor, then expert and data, then pipeline, as Megatron-LM orders them
(megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp").

Sources of the traffic: tensor parallelism, Shoeybi et al., arXiv 1909.08053, section 3; pipeline, Narayanan
et al., arXiv 2104.04473; experts, DeepSeek-V3, arXiv 2412.19437, section 3.2.2 (one copy per node), and
github.com/deepseek-ai/DeepEP (FP8 out, BF16 back); data, Rajbhandari et al., arXiv 1910.02054, section 7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gdrkit.fabric.ceilings.chain import PathName
from gdrkit.fabric.ceilings.gpus import GpuRates
from gdrkit.fabric.ceilings.path_rates import PathRate
from gdrkit.fabric.cost.models import (
    WEIGHT_BYTES,
    CostError,
    ModelShape,
    cache_elements,
    dense_parameters,
    expert_parameters,
    experts_touched,
    head_parameters,
    total_parameters,
)

StepName = Literal["decode", "prefill", "training"]
Fraction = Annotated[float, Meta(ge=0, le=1)]

TOKENS = 4096
"""Of the prompt, and of each replica's part of a training step: one sequence of the length on which Llama 2
and DeepSeek-V3 were trained, arXiv 2307.09288, table 1, and 2412.19437, section 4.2."""

BF16_BYTES = 2
"""Between ranks, for weights of any type (vLLM, Megatron-LM); of the cache and of gradients."""

DISPATCH_FP8_BYTES = 1 + 4 / 128
"""FP8, with one FP32 scale per 128 elements: DeepSeek-V3, arXiv 2412.19437, section 3.3.2."""

TRAINING_FACTOR = 3
"""Forward and backward relative to forward alone: Kaplan et al., arXiv 2001.08361, section 2.1."""

MEMORY_EFFICIENCY = (0.55, 0.92)
"""The share of the datasheet's memory bandwidth that decoding reaches. Low: 55 to 60 % for Llama 2 70B over
several H100s at batch 1, Databricks, "LLM Inference Performance Engineering: Best Practices" (2023).
Between: 72 % for Llama 7B on one A100, pytorch.org/blog/accelerating-generative-ai-2. High: just above what
an H200 reached of its 4800 GB/s in our measurement: 4352 reading 4 GiB, 4267 copying 1 GiB (driver
580.159.04)."""

COMPUTE_EFFICIENCY = (0.38, 0.80)
"""The share of the dense peak that prompts and training reach. Low: 38 to 43 % model FLOP utilisation in
training Llama 3 405B, arXiv 2407.21783, table 4. High: more than an H200 reached of its 989.5 TFLOP/s in our
measurement of BF16 products of 8192 x 8192 (PyTorch 2.11): 723 at first, 665 once it was warm."""

LAUNCH_US = 6.6
"""The time before a collective moves data, unless it is captured in a CUDA graph: NCCL 2.30.7
src/graph/tuning.cc, baseLatencies, Ring/LL."""

SIMPLE_HOP_MORE_US = 16.0
"""By how much a hop with the protocol Simple takes longer than with LL, at worst: 30 us rather than 14, from
the same runs as HOP_LL_US."""

LL_SHARE_SLOW = 0.088
"""The share of the link that LL reached in those runs, from 8 KiB to 64 KiB: few channels, each of them
slow."""


class Span(Struct, frozen=True):
    """Seconds from best to worst."""

    low_s: float = 0.0
    high_s: float = 0.0


class ParallelLayout(Struct, frozen=True, kw_only=True):
    """A job's parallelism, and how many of a node's GPUs it uses. Nodes are filled one after the other."""

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    gpus_per_node: int = 1

    @property
    def stage_ranks(self) -> int:
        """GPUs of one pipeline stage."""
        return max(self.tensor * self.data, self.expert)

    @property
    def ranks(self) -> int:
        return self.stage_ranks * self.pipeline

    @property
    def nodes(self) -> int:
        return self.nodes_of(self.ranks)

    def nodes_of(self, ranks: int) -> int:
        """The nodes that ranks fill which are next to each other."""
        return -(-ranks // self.gpus_per_node)

    @property
    def data_nodes(self) -> int:
        """Of a group of every `tensor`-th rank: a node has as many of them as it has whole tensor groups."""
        return -(-self.data // max(1, self.gpus_per_node // self.tensor))

    @property
    def stages_apart(self) -> int:
        """Boundaries between pipeline stages that are also boundaries between nodes."""
        stages_per_node = self.gpus_per_node // self.stage_ranks
        return self.pipeline - 1 if stages_per_node <= 1 else -(-self.pipeline // stages_per_node) - 1


class Traffic(Struct, frozen=True):
    """One collective between nodes, and how often a step calls it."""

    what: str  # "all-reduce of attention and feed-forward"
    calls: int  # in a step, one after the other
    network_bytes: float  # out of one node in one call
    hops: int  # between nodes, one after the other in one call


class StepOnPath(Struct, frozen=True):
    """The traffic of a step over one path, and how much shorter the step is on the direct path instead.

    The bounds of `saved` are shares of the step on this path; the lower one is 0 where computing may hide
    all traffic."""

    path: PathName
    time: Span
    saved: tuple[Fraction, Fraction] | None  # null for the direct path, and where either time is unknown


class StepCost(Struct, frozen=True):
    """One step. `decode` makes one token, `prefill` reads a prompt, `training` has a backward pass."""

    step: StepName
    traffic: tuple[Traffic, ...]
    network_bytes: float  # out of one node in the step
    computing: Span | None  # null where the GPU's rates are unknown
    paths: tuple[StepOnPath, ...]

    @property
    def calls(self) -> int:
        return sum(row.calls for row in self.traffic)


def checked(layout: ParallelLayout, model: ModelShape) -> ParallelLayout:
    """The layout, if it suits this model. Raises CostError otherwise."""
    if model.attention_heads % layout.tensor:
        raise CostError(f"--tp {layout.tensor} does not divide {model.name}'s {model.attention_heads} heads")
    if layout.pipeline > model.layers:
        raise CostError(f"--pp {layout.pipeline} is more than {model.name}'s {model.layers} layers")
    if layout.expert > 1 and model.experts is None:
        raise CostError(f"--ep {layout.expert}: {model.name} has no experts")
    if model.experts and model.experts.count % layout.expert:
        raise CostError(f"--ep {layout.expert} does not divide {model.name}'s {model.experts.count} experts")
    for option, ranks in (("--tp", layout.tensor), ("--ep", layout.expert)):
        if ranks > layout.gpus_per_node and ranks % layout.gpus_per_node:
            raise CostError(f"{option} {ranks} does not fill nodes of {layout.gpus_per_node} GPUs evenly")
    return layout


def steps(
    model: ModelShape, layout: ParallelLayout, gpu: GpuRates | None, paths: tuple[PathRate, ...]
) -> tuple[StepCost, ...]:
    """Each step of one request or sequence on every path."""
    names: tuple[StepName, ...] = ("decode", "prefill", "training")
    return tuple(_step(name, model, layout, gpu, paths) for name in names)


def _step(
    name: StepName,
    model: ModelShape,
    layout: ParallelLayout,
    gpu: GpuRates | None,
    paths: tuple[PathRate, ...],
) -> StepCost:
    rows = traffic(name, model, layout)
    computing = None if gpu is None else compute(name, model, layout, gpu)
    times = {path.name: _sum(time(row, path) for row in rows) for path in paths}
    direct = times.get("direct")
    return StepCost(
        step=name,
        traffic=rows,
        network_bytes=sum(row.network_bytes * row.calls for row in rows),
        computing=computing,
        paths=tuple(
            StepOnPath(path, spent, _saved(name, computing, direct, spent) if path != "direct" else None)
            for path, spent in times.items()
        ),
    )


def _sum(spans: Iterable[Span]) -> Span:
    found = tuple(spans)
    return Span(sum(one.low_s for one in found), sum(one.high_s for one in found))


def _saved(
    step: StepName, computing: Span | None, direct: Span | None, other: Span
) -> tuple[float, float] | None:
    """Bounds on what the direct path saves of a step on another path. The paths share network and
    collective, so best is compared with best and worst with worst. The next layer of a token waits for the
    traffic; prompts and training steps can be split, so that one half computes while the other is sent
    (DeepSeek-V3, arXiv 2412.19437, sections 3.2.1 and 3.4.1)."""
    if computing is None or direct is None:
        return None
    found = [
        max(0.0, (theirs - ours) / (busy + theirs))
        for busy in (computing.low_s, computing.high_s)
        for ours, theirs in ((direct.low_s, other.low_s), (direct.high_s, other.high_s))
    ]
    return (min(found) if step == "decode" else 0.0), max(found)


def time(row: Traffic, path: PathRate) -> Span:
    """Seconds of one step's calls over a path: at best all bytes at the full rate after the shortest hops,
    at worst the faster of NCCL's two protocols."""
    low = row.hops * path.latency.low_us * 1e-6 + row.network_bytes / path.rate.high_gb_per_s * 1e-9
    hop_us, moved = path.latency.high_us, row.network_bytes / path.rate.low_gb_per_s * 1e-9
    ll = row.hops * hop_us * 1e-6 + moved / LL_SHARE_SLOW
    simple = row.hops * (hop_us + SIMPLE_HOP_MORE_US) * 1e-6 + moved
    return Span(row.calls * low, row.calls * (LAUNCH_US * 1e-6 + min(ll, simple)))


# -- traffic ---------------------------------------------------------------------------------------


def traffic(step: StepName, model: ModelShape, layout: ParallelLayout) -> tuple[Traffic, ...]:
    """The collectives of a step that cross between nodes; the backward pass of training doubles them."""
    tokens, passes = (1 if step == "decode" else TOKENS), (2 if step == "training" else 1)
    hidden = float(tokens * model.hidden_size * BF16_BYTES)
    found: list[Traffic] = []
    if (nodes := layout.nodes_of(layout.tensor)) > 1:
        found.append(_of_layers(model, layout, nodes, hidden, passes))
    if model.experts and (nodes := layout.nodes_of(layout.expert)) > 1:
        reached = nodes_reached(model.experts.count, model.experts.per_token, nodes)
        own = tokens * layout.data / layout.expert * model.hidden_size
        out = own * min(layout.expert, layout.gpus_per_node) * reached
        calls = model.moe_layers * passes
        dispatch = DISPATCH_FP8_BYTES if model.weights == "fp8" else BF16_BYTES
        found += [
            Traffic("all-to-all of tokens to experts", calls, out * dispatch, 1),
            Traffic("all-to-all of experts' outputs", calls, out * BF16_BYTES, 1),
        ]
    if layout.stages_apart:
        found.append(
            Traffic("send of hidden states between stages", layout.stages_apart * passes, hidden, 1)
        )
    if step == "training" and layout.data_nodes > 1:
        found.append(_of_gradients(model, layout))
    return tuple(found)


def _of_layers(
    model: ModelShape, layout: ParallelLayout, nodes: int, payload: float, passes: int
) -> Traffic:
    """Two all-reduces per layer, and one for the word embeddings. Expert parallelism replaces that of the
    feed-forward. Out of a node goes the payload once in a tree between two nodes (NCCL src/graph/trees.cc,
    ncclGetDtree), else what a ring moves over every link: nccl-tests doc/PERFORMANCE.md."""
    calls = 2 * model.layers - (model.moe_layers if layout.expert > 1 else 0) + 1
    crossing = payload if nodes == 2 else 2 * _in_ring(layout.tensor, payload)
    hops = 2 * (nodes - 1).bit_length()
    return Traffic("all-reduce of attention and feed-forward", calls * passes, crossing, hops)


def _of_gradients(model: ModelShape, layout: ParallelLayout) -> Traffic:
    """Gradients are summed once per step. The GPUs of a node are in separate groups, which share the
    network."""
    each = total_parameters(model) * BF16_BYTES / (layout.tensor * layout.pipeline)
    crossing = _in_ring(layout.data, each * min(layout.tensor, layout.gpus_per_node))
    return Traffic("reduce-scatter and all-gather of gradients", 2, crossing, layout.data_nodes - 1)


def _in_ring(ranks: int, payload: float) -> float:
    """Bytes that leave a node in one pass of a ring: nccl-tests doc/PERFORMANCE.md."""
    return (ranks - 1) / ranks * payload


def nodes_reached(experts: int, per_token: int, nodes: int) -> float:
    """Nodes other than its own that a token goes to on average, if every choice of experts is equally
    likely.

    A node is missed if all chosen experts are on other nodes; hypergeometric."""
    here = experts // nodes
    missed = 1.0
    for index in range(per_token):
        missed *= max(0, experts - here - index) / (experts - index)
    return (nodes - 1) * (1 - missed)


# -- computing -------------------------------------------------------------------------------------


def compute(step: StepName, model: ModelShape, layout: ParallelLayout, gpu: GpuRates) -> Span:
    """The longer of reading and multiplying on the busiest GPU, each at a share of the datasheet's rate. All
    stages of a pipeline count in inference, and work at once in training."""
    tokens = 1 if step == "decode" else TOKENS
    read, flop = _read(model, layout, tokens), _flop(model, layout, tokens, step)
    peak = gpu.bf16_tflop_per_s  # 4-bit weights are widened before multiplication
    if model.weights == "fp8" and step != "training":
        peak = gpu.fp8_tflop_per_s or peak
    if step == "training":
        read, flop = (TRAINING_FACTOR * number / layout.pipeline for number in (read, flop))
    best, worst = (
        max(read / (gpu.memory_gb_per_s * 1e9 * memory), flop / (peak * 1e12 * multiplied))
        for memory, multiplied in zip(reversed(MEMORY_EFFICIENCY), reversed(COMPUTE_EFFICIENCY), strict=True)
    )
    return Span(best, worst)


def _read(model: ModelShape, layout: ParallelLayout, tokens: int) -> float:
    """Bytes that one GPU reads for so many tokens: every weight in use once, and the whole cache. Its heads
    are split over tensor ranks until there is one per rank, a latent vector is whole on each (vLLM,
    SGLang)."""
    weights = (dense_parameters(model) + head_parameters(model)) / layout.tensor
    together, share = (layout.data, layout.expert) if layout.expert > 1 else (1, layout.tensor)
    touched = experts_touched(model, tokens * together)
    weights += model.moe_layers * touched / share * expert_parameters(model)
    split = 1 if model.latent else min(layout.tensor, model.kv_heads)
    return weights * WEIGHT_BYTES[model.weights] + TOKENS * cache_elements(model) * BF16_BYTES / split


def _flop(model: ModelShape, layout: ParallelLayout, tokens: int, step: StepName) -> float:
    """FLOP on one GPU: two per weight and token, those of routed experts spread evenly over their ranks.
    Only training computes logits for every token. Products of tokens with each other are left out: with 4096
    they are 4 % for Llama 3 70B, 14 % for DeepSeek-V3 (Narayanan et al., arXiv 2104.04473, appendix)."""
    dense = tokens * dense_parameters(model) + (tokens if step == "training" else 1) * head_parameters(model)
    per_token = model.experts.per_token if model.experts else 0
    routed = tokens * model.moe_layers * per_token * expert_parameters(model)
    if layout.expert > 1:
        return 2 * (dense / layout.tensor + routed * layout.data / layout.expert)
    return 2 * (dense + routed) / layout.tensor
