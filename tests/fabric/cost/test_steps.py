"""What a step reads, computes and sends, derived a second time by hand, and held against published runs."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fabric.ceilings.gpus import GPUS, rates_of
from gdrkit.fabric.ceilings.hops import hop_latency
from gdrkit.fabric.ceilings.interval import between
from gdrkit.fabric.ceilings.path_rates import PathRate
from gdrkit.fabric.cost.models import MODELS, CostError, cache_elements, known_model, total_parameters
from gdrkit.fabric.cost.steps import (
    TOKENS,
    ParallelLayout,
    Traffic,
    checked,
    compute,
    nodes_reached,
    steps,
    time,
    traffic,
)


def path(name="direct", low=20.0, high=24.0, **changes) -> PathRate:
    return PathRate(name, between(low, high), hop_latency(name), **changes)


def layout(**changes) -> ParallelLayout:
    names = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data", "gpus": "gpus_per_node"}
    return ParallelLayout(**{names[key]: value for key, value in changes.items()})


def rows(step, model="llama-3-70b", **changes) -> dict[str, Traffic]:
    return {row.what: row for row in traffic(step, known_model(model), layout(**changes))}


ALL_REDUCE = "all-reduce of attention and feed-forward"

# -- bytes -------------------------------------------------------------------------------------------


def test_llama_70b_over_two_nodes_sends_16_kib_twice_a_layer_for_a_token():
    found = rows("decode", tp=2)
    (decode, *_) = steps(known_model("llama-3-70b"), layout(tp=2), None, ())

    assert found[ALL_REDUCE].calls == 2 * 80 + 1, "and one for the word embeddings"
    assert found[ALL_REDUCE].network_bytes == 8192 * 2
    assert decode.network_bytes == 161 * 16384
    assert decode.calls == 161


def test_llama_70b_over_two_nodes_sends_64_mib_twice_a_layer_for_4096_tokens():
    assert rows("prefill", tp=2)[ALL_REDUCE].network_bytes == 64 << 20


def test_training_doubles_the_all_reduces():
    assert rows("training", tp=2)[ALL_REDUCE].calls == 2 * 161


def test_between_two_nodes_a_tree_sends_the_payload_once_and_more_nodes_use_a_ring():
    """2 (n - 1) / n of the payload: nccl-tests doc/PERFORMANCE.md."""
    assert rows("decode", tp=16, gpus=8)[ALL_REDUCE].network_bytes == 16384
    assert rows("decode", tp=32, gpus=8)[ALL_REDUCE].network_bytes == 2 * 31 / 32 * 16384
    assert [rows("decode", tp=n, gpus=8)[ALL_REDUCE].hops for n in (16, 32, 64)] == [2, 4, 6]


def test_mixtral_in_two_stages_sends_its_hidden_states_once():
    sends = "send of hidden states between stages"

    assert rows("prefill", "mixtral-8x22b", pp=2)[sends].network_bytes == 4096 * 6144 * 2
    assert rows("decode", "mixtral-8x22b", pp=2)[sends].network_bytes == 6144 * 2
    # four stages of two GPUs fill a node: three of fifteen boundaries are between four nodes
    assert rows("decode", "mixtral-8x22b", pp=16, tp=2, gpus=8)[sends].calls == 3


def test_deepseek_sends_a_token_once_to_a_node_with_several_of_its_experts():
    found = rows("decode", "deepseek-v3", ep=16, dp=16, gpus=8)
    out, back = found["all-to-all of tokens to experts"], found["all-to-all of experts' outputs"]
    reached = 1 - comb(128, 8) / comb(256, 8)  # all eight on the own node's 128: stays

    assert nodes_reached(256, 8, 2) == pytest.approx(reached)
    assert out.calls == back.calls == 58
    assert out.network_bytes == pytest.approx(8 * reached * 7168 * (1 + 4 / 128)), "8 GPUs with a token each"
    assert back.network_bytes == pytest.approx(8 * reached * 7168 * 2)


def test_one_copy_per_node_is_less_than_one_copy_per_expert():
    assert nodes_reached(256, 8, 4) < 8 * 3 / 4
    assert nodes_reached(8, 1, 8) == pytest.approx(7 / 8)
    assert nodes_reached(128, 8, 1) == 0


def test_expert_parallelism_replaces_the_feed_forward_all_reduces():
    assert rows("decode", "qwen3-235b-a22b", tp=2, ep=2)[ALL_REDUCE].calls == 94 + 1


@pytest.mark.parametrize("stages", [1, 2])
def test_replicas_send_gradients_in_training_and_nothing_else(stages):
    found = rows("training", "qwen2.5-72b", tp=8, pp=stages, dp=4, gpus=8)
    gradients = found["reduce-scatter and all-gather of gradients"]
    parameters = 72_704_065_536

    assert gradients.network_bytes == 8 * 3 / 4 * parameters / (8 * stages) * 2
    assert (gradients.calls, gradients.hops) == (2, 3), "reduce-scatter, then all-gather, in a ring of nodes"
    assert len(found) == stages, "besides, what one stage sends to the next"
    assert rows("prefill", "qwen2.5-72b", tp=8, dp=4, gpus=8) == {}


def test_nothing_crosses_if_the_group_fits_into_a_node():
    assert all(not rows(step, "gpt-oss-120b", tp=8, gpus=8) for step in ("decode", "prefill", "training"))


# -- time --------------------------------------------------------------------------------------------

SPARKS = PathRate("host-mapped", between(22.3, 24.5), hop_latency("host-mapped", in_place=True))
"""Both functions of one port, MTU 4096. Host memory is the GPU's own there: no hop over PCIe is added."""

ALL_REDUCE_US = {  # bytes: out of place, in place
    8192: (35.15, 30.33),
    16384: (31.67, 30.75),
    32768: (39.56, 37.44),
    65536: (67.93, 64.71),
}
"""github.com/NVIDIA/dgx-spark-playbooks/pull/103: NCCL 2.31.2, nccl-tests 2.20.0, two nodes."""


@pytest.mark.parametrize(("size", "measured_us"), ALL_REDUCE_US.items())
def test_a_small_all_reduce_between_two_sparks_is_within_our_bounds(size, measured_us):
    bounds = time(Traffic("all-reduce", 1, size, 2), SPARKS)

    for us in measured_us:
        assert bounds.low_s <= us * 1e-6 <= bounds.high_s
    assert bounds.high_s < 6 * bounds.low_s


def test_a_large_call_takes_the_time_of_its_bytes_and_hops():
    found = time(Traffic("x", 10, 64 << 20, 2), path(low=10, high=10))

    assert found.low_s == pytest.approx(10 * (2 * 5e-6 + (64 << 20) / 10e9))
    assert found.high_s == pytest.approx(10 * (6.6e-6 + 2 * 30e-6 + (64 << 20) / 10e9))


def computing(step, model, gpu, **changes):
    return compute(step, known_model(model), layout(**changes), rates_of(gpu))


def test_a_token_of_llama_70b_reads_its_weights_and_its_cache_once():
    weights = (70_552_387_584 - 128256 * 8192) * 2  # of the word embeddings, one row
    read = weights + TOKENS * 327_680
    found = computing("decode", "llama-3-70b", "H200")

    assert found.low_s == pytest.approx(read / (4800e9 * 0.92))
    assert found.high_s == pytest.approx(read / (4800e9 * 0.55))


@pytest.mark.parametrize(
    ("model", "gpu", "weights", "tokens_per_s"),
    [
        ("llama-3.1-70b", "GB10", "fp8", 2.7),  # posts of NVIDIA's forum
        ("llama-3.1-8b", "GB10", "fp8", 20.5),  # NVIDIA: "How DGX Spark Performance Enables ..."
        ("gpt-oss-20b", "GB10", "mxfp4", 82.74),  # the same
        ("gpt-oss-120b", "GB10", "mxfp4", 58.82),  # spark-arena.com, vLLM
        ("llama-2-7b", "A100-80GB", "bf16", 104.9),  # pytorch.org/blog/accelerating-generative-ai-2
    ],
)
def test_published_decode_rates_are_within_our_bounds(model, gpu, weights, tokens_per_s):
    """Batch 1, and contexts of 200 to 2200 tokens: what the cache of a longer one adds is taken off."""
    shape, rates = replace(known_model(model), weights=weights), rates_of(gpu)
    found = compute("decode", shape, layout(), rates)
    cache = TOKENS * cache_elements(shape) * 2 / (rates.memory_gb_per_s * 1e9)

    assert found.low_s - cache / 0.92 <= 1 / tokens_per_s <= found.high_s


def test_a_prompt_takes_two_flop_per_weight_and_token_and_training_six():
    layers = 7_504_658_432 - 128256 * 4096
    prompt, training = (computing(step, "llama-3-8b", "H200").low_s for step in ("prefill", "training"))
    flop_per_s = 989.5e12 * 0.8
    assert prompt * flop_per_s == pytest.approx(2 * TOKENS * layers + 2 * 128256 * 4096, rel=1e-3)
    assert training * flop_per_s == pytest.approx(3 * 2 * TOKENS * 7_504_658_432, rel=1e-3)


def test_a_gpu_without_fp8_multiplies_fp8_weights_in_bf16():
    narrow = computing("prefill", "deepseek-v3", "A100-80GB", tp=16)
    wide = compute(
        "prefill", replace(known_model("deepseek-v3"), weights="bf16"), layout(tp=16), rates_of("A100-80GB")
    )

    assert narrow == wide
    assert computing("prefill", "deepseek-v3", "H100-SXM", tp=16).low_s < narrow.low_s / 4


def test_a_prompt_reads_each_weight_once_where_its_experts_are_many():
    """At 4096 tokens, Maverick multiplies for a shorter time than it reads its 400 billion weights."""
    words = 202048 * 5120  # of the word embeddings, the prompt's rows
    read = 2 * (total_parameters(known_model("llama-4-maverick")) - words) + TOKENS * 48 * 2 * 8 * 128 * 2

    assert computing("prefill", "llama-4-maverick", "H200").low_s == pytest.approx(read / (4800e9 * 0.92))


def test_without_a_gpu_no_saving_is_claimed():
    for step in steps(known_model("llama-3-70b"), layout(tp=2), None, (path(), path("staged", 10, 14))):
        assert step.computing is None
        for on in step.paths:
            assert on.saved is None and on.time.low_s > 0


LAYOUTS = st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 2, 2), (8, 1, 4), (16, 4, 1)])


@given(
    model=st.sampled_from([model.name for model in MODELS]),
    degrees=LAYOUTS,
    gpu=st.sampled_from([gpu.name for gpu in GPUS]),
    rate=st.floats(1, 400),
)
def test_any_job_has_ordered_bounds(model, degrees, gpu, rate):
    tp, pp, dp = degrees
    paths = (path(low=rate, high=rate * 1.2), path("staged", rate / 2, rate))
    try:
        chosen = checked(layout(tp=tp, pp=pp, dp=dp), known_model(model))
    except CostError:
        return  # heads that these ranks do not divide
    for one in steps(known_model(model), chosen, rates_of(gpu), paths):
        direct, staged = one.paths
        assert direct.time.low_s <= direct.time.high_s
        assert direct.time.low_s <= staged.time.low_s
        assert direct.time.high_s <= staged.time.high_s
        assert 0 < one.computing.low_s <= one.computing.high_s


@pytest.mark.parametrize(
    ("model", "changes", "named"),
    [
        ("llama-3-70b", {"tp": 3}, "--tp 3"), ("llama-3-70b", {"pp": 81}, "--pp 81"),
        ("llama-3-70b", {"ep": 2}, "--ep 2"), ("llama-3-70b", {"tp": 8, "gpus": 3}, "--tp 8"),
        ("mixtral-8x7b", {"ep": 3}, "--ep 3"),
    ],
)  # fmt: skip
def test_a_layout_that_does_not_suit_the_model_is_refused_by_option(model, changes, named):
    with pytest.raises(CostError, match=named):
        checked(layout(**changes), known_model(model))
