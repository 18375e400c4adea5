"""Read a Hugging Face `config.json` into a model's shape.

Sources: transformers' configuration_*.py of each model type: the keys, their defaults, their meaning. Only
the types that are listed here are read, since another one may have sizes with other names. Windows are not
used: a layer with one caches less.
"""

from __future__ import annotations

from typing import Any

from gdrkit.fabric.cost.models import Experts, Latent, ModelShape, WeightType
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError

DENSE = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3")
EXPERT_KEYS = {
    "mixtral": ("num_local_experts", "intermediate_size"),
    "gpt_oss": ("num_local_experts", "intermediate_size"),
    "llama4_text": ("num_local_experts", "intermediate_size"),
    "qwen2_moe": ("num_experts", "moe_intermediate_size"),
    "qwen3_moe": ("num_experts", "moe_intermediate_size"),
    "deepseek_v2": ("n_routed_experts", "moe_intermediate_size"),
    "deepseek_v3": ("n_routed_experts", "moe_intermediate_size"),
}
"""For each model type with experts: the keys of their number, and of the size of one."""
TEXT_CONFIGS = ("text_config", "llm_config")
"""Multimodal models keep the language model's shape below one of these."""
QUANTIZED: dict[str, WeightType] = {"fp8": "fp8", "mxfp4": "mxfp4"}
LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")
LARGEST = 1 << 20
"""Of any number that is read: published vocabularies have up to 2^18 words. More is a typing error."""
MOST_LAYERS = 4096


def parse_config(text: bytes | str, name: str) -> ModelShape:
    """The model that a config.json describes. Raises FormatError, which names the key."""
    config = json_text.decode(text, dict[str, Any])
    for key in TEXT_CONFIGS:
        if isinstance(inner := config.get(key), dict):
            config = {"tie_word_embeddings": config.get("tie_word_embeddings"), **inner}
    kind = config.get("model_type")
    supported = (*DENSE, *EXPERT_KEYS)
    if not isinstance(kind, str) or kind not in supported:
        raise FormatError(f"config.json: unsupported model_type; supported: {', '.join(supported)}")
    layer_types = config.get("layer_types") or []
    if not isinstance(layer_types, list) or not all(one in LAYER_TYPES for one in layer_types):
        raise FormatError(f"config.json: layer_types: supported: {', '.join(LAYER_TYPES)}")
    return _model(config, kind, name)


def _number(config: dict[str, Any], key: str, default: int | None = None, least: int = 1) -> int:
    """A whole number; the default if it is missing or null. Raises FormatError if it has no default."""
    value = config.get(key)
    if value is None and default is not None:
        return default
    if type(value) is not int or not least <= value <= LARGEST:
        found = "is missing" if value is None else f"is not a whole number from {least} to {LARGEST}"
        raise FormatError(f"config.json: {key} {found}")
    return value


def _model(config: dict[str, Any], kind: str, name: str) -> ModelShape:
    hidden, heads = _number(config, "hidden_size"), _number(config, "num_attention_heads")
    layers, kv_heads = _number(config, "num_hidden_layers"), _number(config, "num_key_value_heads", heads)
    if layers > MOST_LAYERS:
        raise FormatError(f"config.json: num_hidden_layers: {layers} is more than {MOST_LAYERS}")
    if heads % kv_heads:
        raise FormatError(f"config.json: num_key_value_heads {kv_heads} does not divide {heads} heads")
    latent = _latent(config) if kind.startswith("deepseek") else None
    default = None if hidden % heads else hidden // heads
    head_dim = latent.v_head_dim if latent else _number(config, "head_dim", default)
    tied = config.get("tie_word_embeddings")
    if tied is not None and not isinstance(tied, bool):
        raise FormatError("config.json: tie_word_embeddings: not true or false")
    return ModelShape(
        name, hidden, layers, heads, kv_heads, head_dim,
        _number(config, "intermediate_size_mlp" if kind == "llama4_text" else "intermediate_size"),
        _number(config, "vocab_size"),
        _experts(config, kind, layers) if kind in EXPERT_KEYS else None, latent,
        tied_embeddings=kind.startswith("gemma") if tied is None else tied, weights=_weights(config),
    )  # fmt: skip


def _weights(config: dict[str, Any]) -> WeightType:
    stored = config.get("quantization_config")
    if stored is None:
        return "bf16"
    method = stored.get("quant_method") if isinstance(stored, dict) else None
    if not isinstance(method, str) or method not in QUANTIZED:
        raise FormatError(f"config.json: unsupported quant_method; supported: {', '.join(QUANTIZED)}")
    return QUANTIZED[method]


def _latent(config: dict[str, Any]) -> Latent:
    """DeepSeek's keys: configuration_deepseek_v3.py."""
    return Latent(
        _number(config, "kv_lora_rank"), _number(config, "qk_rope_head_dim"),
        _number(config, "qk_nope_head_dim"), _number(config, "v_head_dim"),
        _number(config, "q_lora_rank", 0, least=0),
    )  # fmt: skip


def _experts(config: dict[str, Any], kind: str, layers: int) -> Experts:
    counted, sized = EXPERT_KEYS[kind]
    count, per_token = _number(config, counted), _number(config, "num_experts_per_tok")
    if per_token > count:
        raise FormatError(f"config.json: num_experts_per_tok {per_token} is more than {counted} {count}")
    size = _number(config, sized)
    shared = size * _number(config, "n_shared_experts", 0, least=0)
    if kind == "llama4_text":
        shared = size
    elif kind == "qwen2_moe":
        shared = _number(config, "shared_expert_intermediate_size", 0, least=0)
    return Experts(count, per_token, size, shared, _dense_layers(config, kind, layers))


def _dense_layers(config: dict[str, Any], kind: str, layers: int) -> int:
    """Layers without experts: the first few (DeepSeek), or every other (Llama 4)."""
    steps = ("interleave_moe_layer_step", "moe_layer_freq", "decoder_sparse_step")
    step = max(_number(config, key, 1) for key in steps)
    if kind == "llama4_text":
        return layers - layers // step
    if step > 1 or config.get("mlp_only_layers"):
        raise FormatError("config.json: layers that alternate between experts and none are not supported")
    return min(layers, _number(config, "first_k_dense_replace", 0, least=0))
