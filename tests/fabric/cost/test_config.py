"""A Hugging Face config.json becomes a model, or an error that names the key."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.fabric.cost.config import parse_config
from gdrkit.fabric.cost.models import known_model
from gdrkit.formats.errors import FormatError

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 8192, "intermediate_size": 28672,
    "model_type": "llama", "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8,
    "rope_theta": 500000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "vocab_size": 128256,
    "pretraining_tp": 1, "max_position_embeddings": 8192, "initializer_range": 0.02,
}  # fmt: skip
DEEPSEEK = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
    "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "moe_layer_freq": 1, "first_k_dense_replace": 3, "n_group": 8, "topk_group": 4, "ep_size": 1,
    "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip
GPT_OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
    "num_local_experts": 128, "num_experts_per_tok": 4, "experts_per_token": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 18, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4"},
}  # fmt: skip
MAVERICK = {
    "model_type": "llama4", "vision_config": {"num_hidden_layers": 34},
    "text_config": {
        "model_type": "llama4_text", "hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "interleave_moe_layer_step": 2, "num_attention_heads": 40,
        "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8,
        "num_local_experts": 128, "vocab_size": 202048, "attention_chunk_size": 8192, "head_dim": 128,
    },
}  # fmt: skip
QWEN_MOE = {
    "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 94,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1536, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "max_window_layers": 94, "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip
GEMMA = {
    "model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46,
    "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128, "vocab_size": 256000,
    "sliding_window": 4096, "sliding_window_size": 4096,
}  # fmt: skip


def read(config, name="config"):
    return parse_config(json.dumps(config), name)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "llama-3-70b"), (DEEPSEEK, "deepseek-v3"), (GPT_OSS, "gpt-oss-120b"),
        (MAVERICK, "llama-4-maverick"), (QWEN_MOE, "qwen3-235b-a22b"), (GEMMA, "gemma-2-27b"),
    ],
)  # fmt: skip
def test_a_published_config_is_the_row_of_the_table(config, name):
    assert read(config, name) == known_model(name)


def test_heads_without_a_kv_count_are_all_kv_heads():
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}

    assert read(config).kv_heads == 64


@pytest.mark.parametrize("weights", ["fp8", "mxfp4"])
def test_weights_of_the_checkpoint_have_its_type(weights):
    assert read({**LLAMA, "quantization_config": {"quant_method": weights, "bits": 4}}).weights == weights


def test_a_type_of_weights_that_is_not_known_is_refused():
    with pytest.raises(FormatError, match="unsupported quant_method; supported: fp8, mxfp4"):
        read({**LLAMA, "quantization_config": {"quant_method": "awq"}})


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_missing_key_is_named(key):
    config = {name: value for name, value in LLAMA.items() if name != key}

    with pytest.raises(FormatError, match=key):
        read(config)


@pytest.mark.parametrize("value", [-1, 0, 10**12, "8192", 8192.0, True, [8192], {"a": 1}])
@pytest.mark.parametrize("key", ["hidden_size", "num_key_value_heads", "intermediate_size"])
def test_a_hostile_value_is_refused_by_its_key(key, value):
    with pytest.raises(FormatError, match=key):
        read({**LLAMA, key: value})


@pytest.mark.parametrize("digits", [20, 300, 5000])
def test_a_number_of_many_digits_is_refused_and_not_repeated(digits):
    text = json.dumps({**LLAMA, "hidden_size": 1}).replace(": 1,", ": " + "9" * digits + ",", 1)

    with pytest.raises(FormatError) as caught:
        parse_config(text, "x")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", ["mamba2", "LlamaForCausalLM", "llama5", "", 7, ["llama"], {"llama": 1}])
def test_an_unknown_kind_of_model_is_refused_by_name(kind):
    with pytest.raises(FormatError, match="model_type"):
        read({**LLAMA, "model_type": kind})


def test_a_key_that_is_not_read_is_ignored():
    assert read({**LLAMA, "rope_theta": 1e9, "_name_or_path": "x"}) == read(LLAMA)


@pytest.mark.parametrize("change", [{"mlp_only_layers": [3]}, {"decoder_sparse_step": 2}])
def test_layers_that_alternate_are_refused_where_their_pattern_is_not_read(change):
    with pytest.raises(FormatError, match="alternate"):
        read({**QWEN_MOE, **change})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_key_value_heads": 7}, "num_key_value_heads"),
        ({"num_attention_heads": 63, "num_key_value_heads": 63}, "head_dim"),
        ({"layer_types": ["linear_attention"] * 80}, "layer_types"),
        ({"layer_types": "full_attention"}, "layer_types"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings"),
    ],
)
def test_impossible_shapes_are_refused(change, named):
    with pytest.raises(FormatError, match=named):
        read({**LLAMA, **change})


def test_more_experts_per_token_than_experts_are_refused():
    with pytest.raises(FormatError, match="num_experts_per_tok"):
        read({**DEEPSEEK, "num_experts_per_tok": 257})


def test_a_truncated_config_is_refused():
    text = json.dumps(LLAMA).encode()

    for end in range(len(text)):
        with pytest.raises(FormatError):
            parse_config(text[:end], "cut")


@given(st.binary(max_size=200))
def test_any_bytes_are_a_model_or_refused(data):
    with pytest.raises(FormatError):
        parse_config(data, "any")


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)


@given(st.dictionaries(st.sampled_from([*sorted(DEEPSEEK), "sliding_window", "layer_types"]), VALUES))
def test_any_values_are_a_model_or_refused(changes):
    try:
        model = read({**DEEPSEEK, **changes})
    except FormatError:
        return
    assert model.layers >= 1
    assert model.moe_layers <= model.layers
