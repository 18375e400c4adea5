"""Published measurements compared with our bounds: collectives between two DGX Sparks, tokens on one."""

from __future__ import annotations

import pytest

from gdrkit.fabric.cost.cost import Workload, cost
from gdrkit.fabric.cost.gpus import FRAMEWORK_FACTOR, rates_of
from gdrkit.fabric.cost.layout import ParallelLayout, RankGroup
from gdrkit.fabric.cost.models import known_model
from gdrkit.fabric.cost.paths import all_reduce, given_path, path_cost

SPARKS = given_path("direct", 22.3, 24.5, "both functions of one port, MTU 4096")
"""Host memory is the GPU's own there: no hop over PCIe is added."""

ALL_REDUCE_US = {  # bytes: out of place, in place
    8192: (35.15, 30.33),
    16384: (31.67, 30.75),
    32768: (39.56, 37.44),
    65536: (67.93, 64.71),
}
"""github.com/NVIDIA/dgx-spark-playbooks/pull/103: NCCL 2.31.2, nccl-tests 2.20.0, two nodes."""


@pytest.mark.parametrize(("size", "measured_us"), ALL_REDUCE_US.items())
def test_a_small_all_reduce_between_two_sparks_is_within_our_bounds(size, measured_us):
    bounds = all_reduce(SPARKS, RankGroup(ranks=2, nodes=2), size)

    for us in measured_us:
        assert bounds.low_s <= us * 1e-6 <= bounds.high_s


def test_the_bounds_are_no_wider_than_a_factor_of_five():
    for size in ALL_REDUCE_US:
        bounds = all_reduce(SPARKS, RankGroup(ranks=2, nodes=2), size)
        assert bounds.high_s < 5 * bounds.low_s


TOKENS_PER_S = [  # model, weights, cache, tokens per second of one request, prompt 2048, output 128
    ("llama-3.1-70b", "fp8", "bf16", 2.7),
    ("llama-3.1-8b", "fp8", "bf16", 20.5),
    ("llama-3.1-8b", "int4", "bf16", 38.65),
    ("gpt-oss-20b", "mxfp4", "bf16", 82.74),
    ("gpt-oss-120b", "mxfp4", "fp8", 58.82),
]
"""One DGX Spark, batch 1. The last: the leaderboard of spark-arena.com, vLLM. The others: NVIDIA's "How DGX
Spark Performance Enables Intensive AI Tasks" and posts of its forum, as AI-Daily-Builder collected them on
2026-05-24. NVFP4 is taken as four bits."""


@pytest.mark.parametrize(("model", "dtype", "kv_dtype", "tokens_per_s"), TOKENS_PER_S)
def test_tokens_on_one_spark_are_within_our_bounds(model, dtype, kv_dtype, tokens_per_s):
    job = Workload(
        model=known_model(model), layout=ParallelLayout(), gpu=rates_of("GB10"),
        dtype=dtype, kv_dtype=kv_dtype,
        prompt=2048, output=128,
    )  # fmt: skip
    decode = next(step for step in cost(job, ()).steps if step.phase == "decode")

    assert decode.compute is not None
    assert decode.compute.time.low_s <= 1 / tokens_per_s <= decode.compute.time.high_s
    low, high = FRAMEWORK_FACTOR
    assert low <= 1 / tokens_per_s / decode.compute.time.low_s <= high, "as the assumptions say"


def test_a_path_without_a_lower_bound_has_no_known_cost():
    from gdrkit.fabric.ceilings.chain import chained

    assert path_cost(chained("direct", (), ("the port",))) is None
