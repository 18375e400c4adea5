"""The traffic of a job and its cost, derived a second time by hand."""

from __future__ import annotations

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gdrkit.fabric.cost.cost import Workload, cost
from gdrkit.fabric.cost.gpus import GPUS, rates_of
from gdrkit.fabric.cost.layout import CostError, ParallelLayout
from gdrkit.fabric.cost.models import MODELS, known_model
from gdrkit.fabric.cost.paths import PathCost, given_path
from gdrkit.fabric.cost.traffic import CollectiveKind, nodes_reached

DIRECT, STAGED = given_path("direct", 20, 24, "test"), given_path("staged", 10, 14, "test")
PATHS = (DIRECT, STAGED)
EXACT = PathCost("direct", 10, 10, 0, 0, "test")


def job(model="llama-3-70b", gpu="H200", **changes) -> Workload:
    names = {"tp": "tensor", "pp": "pipeline", "ep": "expert", "dp": "data", "gpus": "gpus_per_node"}
    layout = ParallelLayout(**{names[key]: changes.pop(key) for key in tuple(changes) if key in names})
    return Workload(model=known_model(model), layout=layout, gpu=rates_of(gpu) if gpu else None, **changes)


def step(found, phase):
    return next(step for step in found.steps if step.phase == phase)


def rows(found, phase):
    return {row.what: row for row in step(found, phase).traffic}


# -- bytes and messages ------------------------------------------------------------------------------


def test_llama_70b_over_two_nodes_sends_16_kib_twice_a_layer_for_a_token():
    found = cost(job(tp=2), PATHS)
    outputs = rows(found, "decode")["attention and feed-forward"]

    assert (outputs.kind, outputs.calls, outputs.per_layer) == (CollectiveKind.ALL_REDUCE, 2 * 80, 2)
    assert outputs.payload_bytes == 8192 * 2
    assert outputs.sent_bytes == outputs.network_bytes == 2 * (1 / 2) * 16384
    assert outputs.messages == 2
    words = 128256 * 2 // 2  # each of two ranks has half of the logits, and sends that
    assert step(found, "decode").network_bytes == 161 * 16384 + words


def test_llama_70b_over_two_nodes_sends_64_mib_twice_a_layer_for_4096_tokens():
    outputs = rows(cost(job(tp=2), PATHS), "prefill")["attention and feed-forward"]

    assert outputs.network_bytes == 64 << 20
    assert outputs.network_bytes * outputs.calls == 160 * (64 << 20)


def test_llama_405b_on_sixteen_gpus_of_two_nodes_sends_30_messages_of_a_sixteenth():
    outputs = rows(cost(job("llama-3.1-405b", tp=16, gpus=8), PATHS), "decode")["attention and feed-forward"]

    assert outputs.calls == 252
    assert outputs.messages == 30
    assert outputs.sent_bytes == 30 * 16384 * 2 / 16
    assert outputs.network_bytes == outputs.sent_bytes  # a ring leaves each node once


def test_the_sequence_parallel_form_sends_the_same_bytes_in_twice_the_calls():
    plain = step(cost(job("gemma-3-27b", tp=4), PATHS), "prefill")
    split = step(cost(job("gemma-3-27b", tp=4, sequence_parallel=True), PATHS), "prefill")

    assert split.network_bytes == plain.network_bytes
    assert sum(row.calls for row in split.traffic) == sum(row.calls for row in plain.traffic) + 2 * 62


def test_mixtral_in_two_stages_sends_its_hidden_states_once():
    found = cost(job("mixtral-8x22b", pp=2), PATHS)

    assert step(found, "prefill").network_bytes == 4096 * 6144 * 2
    assert step(found, "decode").network_bytes == 6144 * 2


def test_stages_within_a_node_send_nothing_out_of_it():
    found = cost(job("mixtral-8x22b", pp=16, tp=2, gpus=8), PATHS)

    # four stages of two GPUs fill a node: three of fifteen boundaries are between four nodes
    sends = [row for row in step(found, "decode").traffic if row.kind is CollectiveKind.SEND]
    assert [(row.calls, row.network_bytes) for row in sends] == [(3, 12288), (12, 0)]


def test_deepseek_sends_a_token_once_to_a_node_with_several_of_its_experts():
    found = cost(job("deepseek-v3", ep=16, dp=16, gpus=8, dtype="fp8", batch=8), PATHS)
    there = rows(found, "decode")["tokens to experts"]
    back = rows(found, "decode")["experts' outputs back"]
    reached = 1 - comb(128, 8) / comb(256, 8)  # all eight on the own node's 128: stays

    assert nodes_reached(256, 8, 2) == pytest.approx(reached)
    assert there.calls == back.calls == 58
    token = 7168 * (1 + 4 / 128)
    assert there.network_bytes == pytest.approx(8 * 8 * reached * token)  # 8 GPUs with 8 tokens each
    assert back.network_bytes == pytest.approx(8 * 8 * reached * 7168 * 2)
    assert there.sent_bytes == pytest.approx(8 * 8 * 15 / 16 * token)  # a copy for every expert elsewhere


def test_one_copy_per_node_is_less_than_one_copy_per_expert():
    assert nodes_reached(256, 8, 4) < 8 * 3 / 4
    assert nodes_reached(8, 1, 8) == pytest.approx(7 / 8)
    assert nodes_reached(128, 8, 1) == 0


def test_expert_parallelism_replaces_the_feed_forward_all_reduces():
    found = cost(job("qwen3-235b-a22b", tp=2, ep=2), PATHS)

    assert rows(found, "decode")["attention and feed-forward"].calls == 94


def test_training_sums_gradients_with_reduce_scatter_and_all_gather():
    found = cost(job("qwen2.5-72b", tp=8, dp=4, gpus=8, training=True), PATHS)
    gradients, weights = (rows(found, "training")[what] for what in ("gradients", "updated weights"))
    parameters = 72_704_065_536

    assert (gradients.kind, weights.kind) == (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
    assert gradients.sent_bytes == weights.sent_bytes == 3 / 4 * parameters / 8 * 2
    assert gradients.network_bytes == 8 * gradients.sent_bytes  # eight GPUs of a node, one network
    assert (gradients.group.ranks, gradients.group.nodes) == (4, 4)


def test_inference_on_replicas_sends_nothing_between_them():
    assert step(cost(job("qwen2.5-72b", dp=4), PATHS), "decode").traffic == ()


def test_training_makes_four_all_reduces_in_a_layer():
    outputs = rows(cost(job("llama-3-8b", tp=2, training=True), PATHS), "training")

    assert outputs["attention and feed-forward"].calls == 4 * 32
    assert "logits" not in outputs


def test_a_cache_of_4096_tokens_of_llama_2_7b_is_two_gibibytes():
    found = cost(job("llama-2-7b", kv_transfer=True), PATHS)

    assert step(found, "kv-transfer").network_bytes == 2 << 30


def test_a_latent_cache_is_a_twenty_fifth_of_one_with_all_heads():
    found = cost(job("deepseek-v3", kv_transfer=True, kv_dtype="fp8"), PATHS)

    assert step(found, "kv-transfer").network_bytes == 4096 * 61 * (512 + 64)


def test_nothing_crosses_if_the_group_fits_into_a_node():
    found = cost(job("gpt-oss-120b", tp=8, gpus=8), PATHS)

    assert all(step.network_bytes == 0 for step in found.steps)
    assert all(on.communication.high_s == 0 for step in found.steps for on in step.paths)
    assert all(saving.high == 0 for saving in found.savings)


# -- time ----------------------------------------------------------------------------------------------


def test_a_large_all_reduce_takes_the_time_of_its_bytes_and_two_hops():
    on = step(cost(job(tp=2), (EXACT,)), "prefill").paths[0]
    one = 2 * 14e-6 + (64 << 20) / 10e9
    logits = 14e-6 + 128256 / 10e9
    fast_logits = 5e-6 + 128256 / 5e9  # LL

    assert on.communication.low_s == pytest.approx(161 * one + min(logits, fast_logits))
    assert on.communication.high_s > on.communication.low_s


def test_a_small_all_reduce_is_bound_by_latency():
    on = step(cost(job(tp=2), (EXACT,)), "decode").paths[0]

    hops = 161 * 2 * 5e-6 + 5e-6
    assert hops < on.communication.low_s < 2.3 * hops


def test_a_token_of_llama_70b_reads_its_weights_and_its_cache_once():
    found = step(cost(job(), ()), "decode").compute
    weights = (70_552_387_584 - 128256 * 8192) * 2  # of the word embeddings, one row

    assert found.read_bytes == weights + (4096 + 256) * 327_680
    assert found.bound == "memory"
    assert found.time.low_s == pytest.approx(found.read_bytes / (4800e9 * 0.92))


def test_llama_2_7b_on_an_a100_decodes_at_the_measured_rate():
    """104.9 tokens a second in BF16 at batch 1: pytorch.org/blog/accelerating-generative-ai-2."""
    found = step(cost(job("llama-2-7b", "A100-80GB", prompt=8, output=200), ()), "decode").compute

    assert found.time.low_s < 1 / 104.9 < found.time.high_s


def test_a_prompt_takes_two_flop_per_weight_and_token():
    found = step(cost(job("llama-3-8b", prompt=1024), ()), "prefill").compute
    layers = 7_504_658_432 - 128256 * 4096

    assert found.flop == pytest.approx(2 * 1024 * layers + 2 * 128256 * 4096, rel=0.02)  # and attention
    assert found.bound == "compute"


def test_training_takes_six_flop_per_weight_and_token():
    found = step(cost(job("llama-3-8b", prompt=1024, training=True), ()), "training").compute

    assert found.flop == pytest.approx(6 * 1024 * 7_504_658_432, rel=0.03)


def test_a_gpu_without_fp8_multiplies_fp8_weights_in_bf16():
    narrow = step(cost(job("llama-3-8b", "A100-80GB", dtype="fp8"), ()), "prefill").compute
    wide = step(cost(job("llama-3-8b", "A100-80GB"), ()), "prefill").compute

    assert narrow.time == wide.time
    assert narrow.read_bytes == wide.read_bytes / 2


# -- what is saved ------------------------------------------------------------------------------------


def test_a_slower_other_path_means_a_larger_saving():
    slow = given_path("staged", 2, 3, "test")
    ours = cost(job(tp=2, gpu="GB10"), PATHS).savings[0]
    theirs = cost(job(tp=2, gpu="GB10"), (DIRECT, slow)).savings[0]

    assert theirs.middle > ours.middle > 0


def test_hiding_all_traffic_may_leave_nothing_to_save():
    prefill = next(s for s in cost(job(tp=2, gpu="GB10"), PATHS).savings if s.phase == "prefill")
    decode = next(s for s in cost(job(tp=2, gpu="GB10"), PATHS).savings if s.phase == "decode")

    assert prefill.low == 0  # seconds of computing, half a second of sending
    assert decode.low > 0  # the next layer waits


def test_without_a_gpu_no_share_is_claimed():
    found = cost(job(tp=2, gpu=None), PATHS)

    assert found.savings == ()
    assert all(on.share is None for step in found.steps for on in step.paths)
    assert all(on.communication.low_s > 0 for step in found.steps for on in step.paths)


def test_without_a_direct_path_no_saving_is_claimed():
    assert cost(job(tp=2), (STAGED,)).savings == ()


LAYOUTS = st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 2, 2), (8, 1, 4), (16, 4, 1)])


@given(
    model=st.sampled_from([model.name for model in MODELS]),
    layout=LAYOUTS,
    gpu=st.sampled_from([gpu.name for gpu in GPUS]),
    batch=st.integers(1, 256),
    rate=st.floats(1, 400),
    training=st.booleans(),
)
def test_any_job_has_ordered_bounds(model, layout, gpu, batch, rate, training):
    tp, pp, dp = layout
    paths = (given_path("direct", rate, rate * 1.2, "x"), given_path("staged", rate / 2, rate, "x"))
    try:
        found = cost(job(model, gpu, tp=tp, pp=pp, dp=dp, batch=batch, training=training), paths)
    except CostError:
        return  # heads that these ranks do not divide
    for one in found.steps:
        direct, staged = one.paths
        assert direct.communication.low_s <= direct.communication.high_s
        assert direct.communication.low_s <= staged.communication.low_s
        assert direct.communication.high_s <= staged.communication.high_s
        assert 0 < one.compute.time.low_s <= one.compute.time.high_s
    for saving in found.savings:
        assert 0 <= saving.low <= saving.high <= 1
        assert saving.low - 1e-9 <= saving.middle <= saving.high + 1e-9


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"tp": 3}, "--tp 3"), ({"tp": 0}, "--tp 0"), ({"tp": -2}, "--tp -2"), ({"tp": 1 << 40}, "--tp"),
        ({"pp": 81}, "--pp 81"), ({"ep": 2}, "--ep 2"), ({"batch": 0}, "--batch"),
        ({"prompt": -1}, "--prompt"), ({"output": 1 << 30}, "--output"), ({"dp": 0}, "--dp"),
        ({"gpus": 0}, "--gpus-per-node"), ({"dtype": "bf17"}, "--dtype"), ({"kv_dtype": ""}, "--kv-dtype"),
        ({"tp": 8, "gpus": 3}, "--tp 8"), ({"training": True, "kv_transfer": True}, "--kv-transfer"),
    ],
)  # fmt: skip
def test_numbers_that_do_not_describe_a_job_are_refused_by_option(changes, named):
    with pytest.raises(CostError, match=named):
        cost(job(**changes), PATHS)


def test_experts_that_do_not_divide_are_refused():
    with pytest.raises(CostError, match="--ep 3"):
        cost(job("mixtral-8x7b", ep=3), PATHS)


def test_memory_per_gpu_does_not_depend_on_the_gpu():
    found = cost(replace(job(), gpu=rates_of("L40S")), PATHS)

    assert found.weights_bytes > 48e9


# -- products ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("product", "row"),
    [
        ("NVIDIA H100 80GB HBM3", "H100-SXM"), ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"), ("NVIDIA H200", "H200"), ("NVIDIA H200 NVL", "H200-NVL"),
        ("NVIDIA GH200 480GB", "GH200"), ("NVIDIA GH200 144G HBM3e", "GH200-144GB"), ("NVIDIA GB10", "GB10"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"), ("NVIDIA A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"), ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA GB200", "GB200"), ("NVIDIA GB300", "GB300"), ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA H20", "H20"), ("NVIDIA H20-3e", "H20-3e"), ("NVIDIA H800", "H800"), ("NVIDIA L4", "L4"),
        ("NVIDIA A10", "A10"), ("NVIDIA A30", "A30"), ("NVIDIA A40", "A40"),
        ("NVIDIA GeForce RTX 5090", "RTX-5090"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX-PRO-6000-Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000"),
        ("NVIDIA B200", "B200"), ("NVIDIA L40S", "L40S"), ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("Tesla V100-SXM2-32GB", "V100"), ("Tesla V100-PCIE-16GB", "V100-PCIe"), ("h200", "H200"),
    ],
)  # fmt: skip
def test_a_product_name_finds_its_row(product, row):
    assert rates_of(product).name == row


@pytest.mark.parametrize(
    "product",
    ["NVIDIA A10G", "NVIDIA A16", "NVIDIA H2", "NVIDIA L40", "NVIDIA A100X",
     "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "NVIDIA RTX 6000 Ada Generation",
     "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU", ""],
)  # fmt: skip
def test_a_similar_product_name_finds_nothing(product):
    assert rates_of(product) is None


def test_a_b300_reads_an_eighth_of_what_its_board_does():
    """62 TB/s for eight GPUs, while each GPU of a GB300 has 8."""
    assert rates_of("NVIDIA B300 SXM6 AC").memory_gb_per_s * 8 == 62_000
    assert rates_of("NVIDIA GB300").memory_gb_per_s == 8000
