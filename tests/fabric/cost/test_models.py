"""The table of models, compared with published numbers."""

from __future__ import annotations

import pytest

from gdrkit.fabric.cost.models import (
    MODELS,
    CostError,
    cache_elements,
    dense_parameters,
    expert_parameters,
    experts_touched,
    head_parameters,
    known_model,
    total_parameters,
)

BF16 = 2

PUBLISHED = {
    "llama-2-7b": 6_738_415_616, "llama-2-13b": 13_015_864_320, "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248, "llama-3-70b": 70_553_706_496, "llama-3.1-405b": 405_853_388_800,
    "mistral-7b": 7_241_732_096, "mixtral-8x7b": 46_702_792_704, "mixtral-8x22b": 140_630_071_296,
    "qwen2.5-7b": 7_615_616_512, "qwen2.5-32b": 32_763_876_352, "qwen2.5-72b": 72_706_203_648,
    "qwen3-8b": 8_190_735_360, "qwen3-32b": 32_762_123_264, "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560, "deepseek-v3": 671_026_419_200, "deepseek-v2": 235_741_434_880,
    "gpt-oss-20b": 20_914_757_184, "gpt-oss-120b": 116_829_156_672, "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
}  # fmt: skip
"""Parameters that huggingface.co counts in the checkpoints' tensors; DeepSeek-V3 without its prediction
module, 671B in README_WEIGHTS.md."""


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED.items())
def test_a_shape_adds_up_to_the_published_parameters_without_norms_and_biases(name, parameters):
    ours = total_parameters(known_model(name))

    assert ours < parameters
    assert ours == pytest.approx(parameters, rel=5e-4)


@pytest.mark.parametrize(
    ("name", "billion", "tolerance"),
    [
        ("mixtral-8x7b", 12.9, 0.02),  # Mixtral of Experts, arXiv 2401.04088
        ("mixtral-8x22b", 39, 0.01),  # mistral.ai/news/mixtral-8x22b
        ("deepseek-v3", 37, 0.02),  # arXiv 2412.19437, abstract
        ("deepseek-v2", 21, 0.02),  # arXiv 2405.04434, abstract
        ("gpt-oss-120b", 5.13, 0.002),  # gpt-oss model card, table 1
        ("gpt-oss-20b", 3.61, 0.002),
        ("qwen3-235b-a22b", 22, 0.03),
        ("llama-4-maverick", 17, 0.06),  # embeddings of 202048 words counted there
    ],
)
def test_a_token_uses_the_published_active_parameters(name, billion, tolerance):
    """Active are the layers, the experts of one token, and the logits."""
    model = known_model(name)
    experts = model.moe_layers * (model.experts.per_token if model.experts else 0) * expert_parameters(model)
    active = dense_parameters(model) + experts + head_parameters(model)

    assert active / 1e9 == pytest.approx(billion, rel=tolerance)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("deepseek-v3", 70_272),  # "Insights into DeepSeek-V3", arXiv 2505.09343, table 1: 70.272 KB
        ("qwen2.5-72b", 327_680),  # the same table: 327.680 KB
        ("llama-3.1-405b", 516_096),  # the same table: 516.096 KB
        ("llama-2-7b", 524_288),  # 0.5 MB a token, Databricks and many others
        ("llama-3-8b", 131_072),
    ],
)
def test_a_token_takes_the_published_bytes_of_cache(name, bytes_per_token):
    model = known_model(name)

    assert cache_elements(model) * BF16 == bytes_per_token


def test_grouped_heads_cache_an_eighth_of_all_heads():
    assert cache_elements(known_model("llama-3-70b")) * 8 == 80 * 2 * 64 * 128


def test_few_tokens_touch_few_experts_and_many_touch_all():
    model = known_model("mixtral-8x7b")

    assert experts_touched(model, 1) == pytest.approx(2)
    assert experts_touched(model, 2) == pytest.approx(8 * (1 - 0.75**2))
    assert experts_touched(model, 4096) == pytest.approx(8)
    assert experts_touched(known_model("llama-3-8b"), 4096) == 0


def test_names_are_unique():
    assert len({model.name for model in MODELS}) == len(MODELS)


@pytest.mark.parametrize("name", ["Llama-3-70B", "meta-llama/llama_3_70b", " llama-3-70b "])
def test_a_name_is_found_as_people_write_it(name):
    assert known_model(name).name == "llama-3-70b"


def test_an_unknown_name_is_refused_with_suggestions():
    with pytest.raises(CostError, match="llama-3-70b"):
        known_model("lama-3-70b")
    with pytest.raises(CostError, match="unknown model"):
        known_model("")
