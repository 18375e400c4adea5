"""What GPUDirect RDMA would save a job: its steps, their traffic, and their time on every path."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gdrkit.fabric.ceilings.chain import PathName
from gdrkit.fabric.cost import compute
from gdrkit.fabric.cost.compute import WEIGHT_BYTES, Compute, Dtype
from gdrkit.fabric.cost.gpus import GpuRates
from gdrkit.fabric.cost.layout import CostError, ParallelLayout, checked, positive
from gdrkit.fabric.cost.models import ModelShape
from gdrkit.fabric.cost.paths import PathCost, Span
from gdrkit.fabric.cost.traffic import (
    Traffic,
    cache_traffic,
    data_traffic,
    expert_traffic,
    pipeline_traffic,
    tensor_traffic,
)

DISPATCH_FP8_BYTES = 1 + 4 / 128
"""FP8, with one FP32 scale per 128 elements: DeepSeek-V3, arXiv 2412.19437, section 3.3.2."""


Phase = Literal["decode", "prefill", "training", "kv-transfer"]
Share = Annotated[float, Meta(ge=0, le=1)]


class Workload(Struct, frozen=True, kw_only=True):
    """A job: model, parallelism, sizes and data types."""

    model: ModelShape
    layout: ParallelLayout
    batch: int = 1  # requests of one replica at a time
    prompt: int = 4096  # tokens
    output: int = 512  # tokens
    dtype: Dtype = "bf16"  # of weights
    kv_dtype: Dtype = "bf16"  # of the cache
    sequence_parallel: bool = False
    kv_transfer: bool = False
    training: bool = False
    gpu: GpuRates | None = None  # None: its computing rate is not known


class PhaseOnPath(Struct, frozen=True):
    """A step over one path: the time of its traffic, and its share of the step if none of it is hidden."""

    path: PathCost
    waited_for: Span  # cannot be hidden: the next operation needs it
    hideable: Span  # other work can hide it, if there is any
    share: tuple[Share, Share] | None  # null where computing time is unknown

    @property
    def communication(self) -> Span:
        return self.waited_for + self.hideable


class PhaseCost(Struct, frozen=True):
    """One phase of the job. A `decode` step produces one token for every request."""

    phase: Phase
    traffic: tuple[Traffic, ...]
    compute: Compute | None
    paths: tuple[PhaseOnPath, ...]

    @property
    def network_bytes(self) -> float:
        """Bytes that leave one node in the step."""
        return sum(row.network_bytes * row.calls for row in self.traffic)


class Saving(Struct, frozen=True):
    """How much shorter a step is on the direct path than on another one, as shares of the other's step. Both
    bounds may be 0."""

    phase: Phase
    instead_of: PathName
    low: Share
    middle: Share
    high: Share


class Cost(Struct, frozen=True):
    job: Workload
    steps: tuple[PhaseCost, ...]
    savings: tuple[Saving, ...]
    weights_bytes: float  # on one GPU
    cache_bytes: float  # on one GPU, at the end of the output


def cost(job: Workload, paths: tuple[PathCost, ...]) -> Cost:
    """Every step on every path. Raises CostError for numbers that do not describe a job."""
    _check(job)
    if job.training:
        steps = [_training(job, paths)]
    else:
        steps = [_prefill(job, paths), _decode(job, paths)]
        if job.kv_transfer:
            rows = (cache_traffic(job.model, job.prompt, job.batch, WEIGHT_BYTES[job.kv_dtype]),)
            steps.append(_step("kv-transfer", rows, None, paths))
    cached = 0.0
    if not job.training:
        element, end = WEIGHT_BYTES[job.kv_dtype], job.prompt + job.output
        cached = compute.cache_bytes(job.model, job.layout, end, job.batch, element) / job.layout.pipeline
    saved = tuple(saving for step in steps for saving in savings(step))
    return Cost(
        job, tuple(steps), saved, compute.weight_bytes_per_gpu(job.model, job.layout, job.dtype), cached
    )


def _check(job: Workload) -> None:
    checked(job.layout, job.model)
    positive("--batch", job.batch)
    positive("--prompt", job.prompt)
    positive("--output", job.output)
    for option, dtype in (("--dtype", job.dtype), ("--kv-dtype", job.kv_dtype)):
        if dtype not in WEIGHT_BYTES:
            raise CostError(f"{option}: unknown type {dtype[:20]!r}; known: {', '.join(WEIGHT_BYTES)}")
    if job.training and job.kv_transfer:
        raise CostError("--kv-transfer: training keeps no cache to transfer")


def _traffic(job: Workload, tokens: int, logits: int, *, training: bool) -> tuple[Traffic, ...]:
    model, layout = job.model, job.layout
    dispatch = DISPATCH_FP8_BYTES if job.dtype == "fp8" else 2.0
    return (
        *tensor_traffic(model, layout, tokens, logits, sequence=job.sequence_parallel, training=training),
        *expert_traffic(model, layout, tokens, dispatch, training=training),
        *pipeline_traffic(model, layout, tokens, training=training),
        *data_traffic(model, layout, WEIGHT_BYTES["bf16"], training=training),
    )


def _decode(job: Workload, paths: tuple[PathCost, ...]) -> PhaseCost:
    """The step of the token in the middle of the output."""
    context = job.prompt + job.output // 2
    busy = None
    if job.gpu is not None:
        element = WEIGHT_BYTES[job.kv_dtype]
        busy = compute.decode(job.model, job.layout, job.gpu, job.dtype, job.batch, context, element)
    return _step("decode", _traffic(job, job.batch, job.batch, training=False), busy, paths)


def _prefill(job: Workload, paths: tuple[PathCost, ...]) -> PhaseCost:
    busy = None
    if job.gpu is not None:
        busy = compute.prefill(job.model, job.layout, job.gpu, job.dtype, job.batch, job.prompt)
    return _step("prefill", _traffic(job, job.batch * job.prompt, job.batch, training=False), busy, paths)


def _training(job: Workload, paths: tuple[PathCost, ...]) -> PhaseCost:
    tokens = job.batch * job.prompt
    busy = None
    if job.gpu is not None:
        busy = compute.training(job.model, job.layout, job.gpu, job.dtype, job.batch, job.prompt)
    return _step("training", _traffic(job, tokens, tokens, training=True), busy, paths)


def _step(
    phase: Phase, rows: tuple[Traffic, ...], busy: Compute | None, paths: tuple[PathCost, ...]
) -> PhaseCost:
    """One step on every path. Prompts and batches can be split, so that one half computes while the other is
    sent; in decoding only experts' traffic is (DeepSeek-V3, arXiv 2412.19437, section 3.4.2)."""
    found = []
    for path in paths:
        waited, hideable = Span(), Span()
        for row in rows:
            if phase == "decode" and row.parallelism != "expert":
                waited += row.time(path)
            else:
                hideable += row.time(path)
        spent = waited + hideable
        share = None
        if busy is not None:
            share = (_part(spent.low_s, busy.time.high_s), _part(spent.high_s, busy.time.low_s))
        found.append(PhaseOnPath(path, waited, hideable, share))
    return PhaseCost(phase, rows, busy, tuple(found))


def _part(spent: float, computing: float) -> float:
    return spent / (spent + computing) if spent else 0.0


def savings(step: PhaseCost) -> list[Saving]:
    """The direct path compared with every other. Empty if the computing time is unknown; a transfer of
    caches computes nothing and is compared by itself."""
    direct = next((on for on in step.paths if on.path.name == "direct"), None)
    if direct is None or (step.compute is None and step.phase != "kv-transfer"):
        return []
    busy = step.compute.time if step.compute else Span()
    others = (on for on in step.paths if on is not direct)
    return [Saving(step.phase, on.path.name, *_saved(busy, direct, on)) for on in others]


def _saved(busy: Span, direct: PhaseOnPath, other: PhaseOnPath) -> tuple[float, float, float]:
    """The lowest, middle and highest share saved. Both paths share network and collective, so best is
    compared with best and worst with worst, each with fast and slow computing, and with all or none of what
    computing can hide hidden."""
    found = []
    for computing in (busy.low_s, busy.high_s):
        for bound in ("low_s", "high_s"):
            ours, theirs = (
                (getattr(on.waited_for, bound), getattr(on.hideable, bound)) for on in (direct, other)
            )
            found.append(_gain(computing + sum(ours), computing + sum(theirs)))
            found.append(_gain(ours[0] + max(computing, ours[1]), theirs[0] + max(computing, theirs[1])))
    middle = _gain(
        busy.middle_s + direct.communication.middle_s, busy.middle_s + other.communication.middle_s
    )
    return min(found), middle, max(found)


def _gain(ours: float, theirs: float) -> float:
    return max(0.0, 1 - ours / theirs) if theirs else 0.0
