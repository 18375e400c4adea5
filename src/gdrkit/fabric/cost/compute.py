"""The computing time of a GPU for one step, by the roofline model: reading or multiplying.

The longer of the two counts, each at a stated share of the datasheet's rate. Norms, sampling, launches and
the framework's own work are not included."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from gdrkit.fabric.cost.gpus import COMPUTE_EFFICIENCY, MEMORY_EFFICIENCY, GpuRates
from gdrkit.fabric.cost.layout import ParallelLayout
from gdrkit.fabric.cost.models import ModelShape
from gdrkit.fabric.cost.models_size import (
    cache_elements,
    cache_tokens,
    dense_parameters,
    expert_parameters,
    experts_touched,
    head_parameters,
    prefill_attention_flop,
    total_parameters,
)
from gdrkit.fabric.cost.paths import Span

Dtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "mxfp4"]

WEIGHT_BYTES: dict[Dtype, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "mxfp4": 17 / 32,
}
"""Of one element. MXFP4: 32 of four bits share a scale of eight; OCP Microscaling Formats 1.0, 5.2."""

TRAINING_FACTOR = 3
"""Forward and backward relative to forward alone: Kaplan et al., arXiv 2001.08361, section 2.1."""


BoundBy = Literal["memory", "compute", "memory or compute"]
"""The last: it depends on the efficiencies."""


class Compute(Struct, frozen=True):
    """One step on the busiest GPU."""

    read_bytes: float
    flop: float
    time: Span
    bound: BoundBy


def weight_bytes_per_gpu(model: ModelShape, layout: ParallelLayout, dtype: Dtype) -> float:
    """Bytes of weights on one GPU. Embeddings are spread over all stages, though only some stages have
    them."""
    routed = model.moe_layers * (model.experts.count if model.experts else 0) * expert_parameters(model)
    rest = total_parameters(model) - routed
    share = layout.expert if layout.expert > 1 else layout.tensor
    return (rest / layout.tensor + routed / share) / layout.pipeline * WEIGHT_BYTES[dtype]


def cache_bytes(
    model: ModelShape, layout: ParallelLayout, context: int, batch: int, element_bytes: float
) -> float:
    """Bytes of cache on one GPU, summed over all stages: heads are split over tensor ranks until there is
    one head per rank, and a latent vector is kept whole on each (vLLM, SGLang)."""
    split = 1 if model.latent else min(layout.tensor, model.kv_heads)
    return batch * cache_tokens(model, context) * cache_elements(model) * element_bytes / split


def decode(
    model: ModelShape,
    layout: ParallelLayout,
    gpu: GpuRates,
    dtype: Dtype,
    batch: int,
    context: int,
    cache_element_bytes: float,
) -> Compute:
    """One new token for each request: every weight in use is read once, and the whole cache."""
    dense = dense_parameters(model) + head_parameters(model)
    if layout.expert > 1:
        touched = experts_touched(model, batch * layout.data) / layout.expert
    else:
        touched = experts_touched(model, batch) / layout.tensor
    weights = dense / layout.tensor + model.moe_layers * touched * expert_parameters(model)
    read = weights * WEIGHT_BYTES[dtype] + cache_bytes(model, layout, context, batch, cache_element_bytes)
    flop = _flop(model, layout, batch, batch)
    return _roofline(read, flop, gpu, dtype)


def prefill(
    model: ModelShape, layout: ParallelLayout, gpu: GpuRates, dtype: Dtype, batch: int, prompt: int
) -> Compute:
    """All tokens of all prompts at once; logits only for the last token of each."""
    flop = _flop(model, layout, batch * prompt, batch)
    flop += batch * prefill_attention_flop(model, prompt) / layout.tensor
    read = weight_bytes_per_gpu(model, layout, dtype) * layout.pipeline
    return _roofline(read, flop, gpu, dtype)


def training(
    model: ModelShape, layout: ParallelLayout, gpu: GpuRates, dtype: Dtype, batch: int, sequence: int
) -> Compute:
    """Forward and backward of one replica's batch, all stages at work at once (no bubble)."""
    flop = _flop(model, layout, batch * sequence, batch * sequence)
    flop += batch * prefill_attention_flop(model, sequence) / layout.tensor
    read = TRAINING_FACTOR * weight_bytes_per_gpu(model, layout, dtype)
    return _roofline(read, TRAINING_FACTOR * flop / layout.pipeline, gpu, dtype)


def _flop(model: ModelShape, layout: ParallelLayout, tokens: int, logits: int) -> float:
    """FLOP on one GPU: two per weight and token, those of routed experts spread evenly over their ranks."""
    dense = tokens * dense_parameters(model) + logits * head_parameters(model)
    per_token = model.experts.per_token if model.experts else 0
    routed = tokens * model.moe_layers * per_token * expert_parameters(model)
    if layout.expert > 1:
        return 2 * (dense / layout.tensor + routed * layout.data / layout.expert)
    return 2 * (dense + routed) / layout.tensor


def _roofline(read: float, flop: float, gpu: GpuRates, dtype: Dtype) -> Compute:
    peak = gpu.bf16_tflop_per_s  # 4-bit weights are widened before multiplication
    if dtype in ("fp8", "int8") and gpu.fp8_tflop_per_s is not None:
        peak = gpu.fp8_tflop_per_s
    if dtype == "fp32":
        peak = gpu.bf16_tflop_per_s / 2  # TF32, at half of BF16's rate on every GPU of the table that has it
    reading = [read / (gpu.memory_gb_per_s * 1e9 * share) for share in reversed(MEMORY_EFFICIENCY)]
    multiplying = [flop / (peak * 1e12 * share) for share in reversed(COMPUTE_EFFICIENCY)]
    bound: BoundBy
    if reading[0] >= multiplying[1]:
        bound = "memory"
    elif multiplying[0] >= reading[1]:
        bound = "compute"
    else:
        bound = "memory or compute"
    time = Span(max(reading[0], multiplying[0]), max(reading[1], multiplying[1]))
    return Compute(read, flop, time, bound)
