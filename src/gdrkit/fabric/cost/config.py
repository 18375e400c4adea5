"""Read a Hugging Face `config.json` into a model's shape.

Sources: transformers' configuration_*.py of each model type: the keys, their defaults, their meaning.
An unknown key of a size is rejected by name, since it may change every number. Windows are accepted and not
used: a layer with one caches less.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct

from gdrkit.fabric.cost.models import Experts, Latent, ModelShape, WeightType
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError

Size = Annotated[int, Meta(ge=1, le=1 << 20)]
"""The largest size accepted is sixteen times the largest published one, to catch typing errors."""
Count = Annotated[int, Meta(ge=0, le=1 << 20)]

PLAIN = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3")
MIXED = ("mixtral", "qwen3_moe", "qwen2_moe", "gpt_oss", "llama4_text", "deepseek_v2", "deepseek_v3")

NESTED = ("text_config", "llm_config")
"""Multimodal models keep the language model's shape below one of these."""

SIZE_ENDINGS = (
    "_size", "_rank", "_dim", "_dims", "_heads", "_layers", "_experts", "_step", "_freq", "_pattern",
)  # fmt: skip
NO_SIZES = frozenset((
    "qk_head_dim", "max_window_layers", "sliding_window_size", "sliding_window_pattern",
    "_sliding_window_pattern", "num_nextn_predict_layers", "ep_size", "chunk_size_feed_forward",
    "no_rope_layers", "attention_chunk_size", "moe_layers",
))  # fmt: skip
"""Keys that look like sizes and do not change what a step reads and sends: windows, a draft head of
multi-token prediction (`num_nextn_predict_layers`), how a checkpoint was split (`ep_size`), which layers
have no rotary embedding."""


class Quantization(Struct):
    """How the weights of the checkpoint are stored."""

    quant_method: str


class ModelConfig(Struct):
    """The keys that are read. One that is null or missing has the default of its model type."""

    model_type: str
    hidden_size: Size
    num_hidden_layers: Annotated[int, Meta(ge=1, le=4096)]
    num_attention_heads: Size
    vocab_size: Annotated[int, Meta(ge=1, le=1 << 24)]
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    intermediate_size: Size | None = None
    intermediate_size_mlp: Size | None = None
    tie_word_embeddings: bool | None = None
    layer_types: list[str] | None = None
    quantization_config: Quantization | None = None
    # attention with a latent vector
    kv_lora_rank: Size | None = None
    q_lora_rank: Count | None = None
    qk_rope_head_dim: Size | None = None
    qk_nope_head_dim: Size | None = None
    v_head_dim: Size | None = None
    # experts
    num_experts: Size | None = None
    num_local_experts: Size | None = None
    n_routed_experts: Size | None = None
    num_experts_per_tok: Size | None = None
    moe_intermediate_size: Size | None = None
    n_shared_experts: Count | None = None
    shared_expert_intermediate_size: Count | None = None
    # which layers have none
    interleave_moe_layer_step: Size | None = None
    moe_layer_freq: Size | None = None
    first_k_dense_replace: Count | None = None
    decoder_sparse_step: Size | None = None
    mlp_only_layers: list[int] | None = None

    def size(self, key: str) -> int:
        """A size that this model type cannot do without."""
        value: int | None = getattr(self, key)
        if value is None:
            raise FormatError(f"config.json: {key} is missing")
        return value


def parse_config(text: bytes | str, name: str) -> ModelShape:
    """The model that a config.json describes. Raises FormatError, which names the key."""
    try:
        content = json_text.decode(text, dict[str, Any])
        for below in NESTED:
            if isinstance(nested := content.get(below), dict):
                content = {"tie_word_embeddings": content.get("tie_word_embeddings"), **nested}
        config = json_text.decode(json_text.encode(content), ModelConfig)
    except FormatError as error:
        raise FormatError(f"config.json: {error}") from None
    if config.model_type not in PLAIN + MIXED:
        raise FormatError(
            f"config.json: unsupported model_type {config.model_type[:40]!r}; "
            f"supported: {', '.join(PLAIN + MIXED)}"
        )
    for key in content:
        if key.endswith(SIZE_ENDINGS) and key not in NO_SIZES and key not in ModelConfig.__struct_fields__:
            raise FormatError(f"config.json: unknown size: {key[:60]}")
    for kind in config.layer_types or ():
        if kind not in ("full_attention", "sliding_attention", "chunked_attention"):
            raise FormatError(f"config.json: layer_types: unknown type {kind[:40]!r}")
    return _model(config, name)


def _model(config: ModelConfig, name: str) -> ModelShape:
    kind, hidden, heads = config.model_type, config.hidden_size, config.num_attention_heads
    kv_heads = config.num_key_value_heads or heads
    if heads % kv_heads:
        raise FormatError(f"config.json: num_key_value_heads {kv_heads} does not divide {heads} heads")
    latent = _latent(config) if kind.startswith("deepseek") else None
    head_dim = latent.v_head_dim if latent else config.head_dim
    if head_dim is None and hidden % heads:
        raise FormatError(f"config.json: head_dim is missing, and {heads} heads do not divide {hidden}")
    tied = config.tie_word_embeddings
    return ModelShape(
        name=name, hidden_size=hidden, layers=config.num_hidden_layers, attention_heads=heads,
        kv_heads=kv_heads, head_dim=head_dim or hidden // heads,
        intermediate_size=config.size(
            "intermediate_size_mlp" if kind == "llama4_text" else "intermediate_size"
        ),
        vocabulary=config.vocab_size, source="config.json",
        experts=_experts(config) if kind in MIXED else None, latent=latent,
        tied_embeddings=kind.startswith("gemma") if tied is None else tied, weights=_weights(config),
    )  # fmt: skip


def _weights(config: ModelConfig) -> WeightType:
    if config.quantization_config is None:
        return "bf16"
    match config.quantization_config.quant_method:
        case "fp8":
            return "fp8"
        case "mxfp4":
            return "mxfp4"
        case other:
            raise FormatError(f"config.json: quantization_config: unsupported quant_method {other[:40]!r}")


def _latent(config: ModelConfig) -> Latent:
    """DeepSeek's keys: configuration_deepseek_v3.py."""
    return Latent(
        config.size("kv_lora_rank"), config.size("qk_rope_head_dim"), config.size("qk_nope_head_dim"),
        config.size("v_head_dim"), config.q_lora_rank or 0,
    )  # fmt: skip


def _experts(config: ModelConfig) -> Experts:
    kind = config.model_type
    counted = {
        "mixtral": "num_local_experts", "gpt_oss": "num_local_experts", "llama4_text": "num_local_experts",
        "qwen3_moe": "num_experts", "qwen2_moe": "num_experts",
    }.get(kind, "n_routed_experts")  # fmt: skip
    count, per_token = config.size(counted), config.size("num_experts_per_tok")
    if per_token > count:
        raise FormatError(f"config.json: num_experts_per_tok {per_token} is more than {counted} {count}")
    own = "intermediate_size" if counted == "num_local_experts" else "moe_intermediate_size"
    size = config.size(own)
    shared = size * (config.n_shared_experts or 0)
    if kind == "llama4_text":
        shared = size
    elif kind == "qwen2_moe":
        shared = config.shared_expert_intermediate_size or 0
    return Experts(count, per_token, size, shared, _dense_layers(config))


def _dense_layers(config: ModelConfig) -> int:
    """Layers without experts: the first few (DeepSeek), every other (Llama 4), those listed (Qwen)."""
    kind, layers = config.model_type, config.num_hidden_layers
    if kind == "llama4_text":
        return layers - layers // (config.interleave_moe_layer_step or 1)
    if kind.startswith("deepseek"):
        if (config.moe_layer_freq or 1) != 1:
            raise FormatError("config.json: moe_layer_freq other than 1 is not supported")
        return min(layers, config.first_k_dense_replace or 0)
    if kind.startswith("qwen"):
        step, listed = config.decoder_sparse_step or 1, set(config.mlp_only_layers or ())
        return sum(1 for n in range(layers) if n in listed or (n + 1) % step)
    return 0
