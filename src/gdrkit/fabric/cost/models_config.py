"""Read a Hugging Face `config.json` into a model's shape.

Sources: transformers' configuration_*.py of each model type: the keys, their defaults, their meaning.
An unknown key of a size is rejected by name, since it may change every number.
"""

from __future__ import annotations

from collections.abc import Mapping

from gdrkit.fabric.cost.models import Experts, Latent, ModelShape
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError

LIMITS = {"vocab_size": 1 << 24, "num_hidden_layers": 4096}
LIMIT = 1 << 20
"""The largest size accepted: sixteen times the largest published one, to catch typing errors."""

PLAIN = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "phi3")
MIXED = ("mixtral", "qwen3_moe", "qwen2_moe", "gpt_oss", "llama4_text", "deepseek_v2", "deepseek_v3")

NESTED = (
    "text_config",
    "llm_config",
)  # multimodal models keep the language model's shape below one of these

SIZE_ENDINGS = (
    "_size",
    "_rank",
    "_dim",
    "_dims",
    "_heads",
    "_layers",
    "_experts",
    "_step",
    "_freq",
    "_pattern",
)
KNOWN_SIZES = frozenset((
    "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "intermediate_size", "vocab_size", "moe_intermediate_size", "num_experts", "num_local_experts",
    "n_routed_experts", "n_shared_experts", "shared_expert_intermediate_size", "intermediate_size_mlp",
    "interleave_moe_layer_step", "moe_layer_freq", "decoder_sparse_step", "mlp_only_layers",
    "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "qk_head_dim",
    "max_window_layers", "sliding_window_size", "sliding_window_pattern", "_sliding_window_pattern",
    "num_nextn_predict_layers", "ep_size", "chunk_size_feed_forward", "no_rope_layers",
    "attention_chunk_size", "moe_layers", "no_rope_layer_interval", "mm_tokens_per_image",
))  # fmt: skip
"""Keys of sizes that are read here, or that do not change the sizes of a step: a draft head of multi-token
prediction (`num_nextn_predict_layers`), how a checkpoint was split (`ep_size`), which layers have no rotary
embedding."""


def parse_config(text: bytes | str, name: str) -> ModelShape:
    """The model that a config.json describes. Raises FormatError, which names the key."""
    try:
        content = json_text.decode(text, object)
    except FormatError as error:
        raise FormatError(f"config.json: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError("config.json: not an object")
    keys = _Keys(content)
    for below in NESTED:
        if isinstance(nested := content.get(below), dict):
            outer = {key: content[key] for key in ("tie_word_embeddings",) if key in content}
            keys = _Keys({**outer, **nested})
    kind = keys.word("model_type")
    if kind not in PLAIN + MIXED:
        raise FormatError(
            f"config.json: unsupported model_type {kind[:40]!r}; supported: {', '.join(PLAIN + MIXED)}"
        )
    keys.refuse_unknown_sizes()
    return _model(keys, kind, name)


class _Keys:
    """The keys of a config, each with a check of its type."""

    def __init__(self, content: Mapping[str, object]) -> None:
        self.content = content

    def word(self, key: str) -> str:
        value = self.content.get(key)
        if not isinstance(value, str):
            raise FormatError(f"config.json: {key} is {'missing' if value is None else 'not a string'}")
        return value

    def number(self, key: str, default: int | None = None, least: int = 1) -> int:
        """An integer within its bounds; the default, if there is one, for null or a missing key."""
        value = self.content.get(key)
        if value is None:
            if default is None:
                raise FormatError(f"config.json: {key} is missing")
            return default
        limit = LIMITS.get(key, LIMIT)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= limit:
            raise FormatError(
                f"config.json: {key} is {str(value)[:40]!r}; must be a number from {least} to {limit}"
            )
        return value

    def yes(self, key: str, default: bool) -> bool:
        value = self.content.get(key, default)
        if not isinstance(value, bool):
            raise FormatError(f"config.json: {key} is {str(value)[:40]!r}; must be true or false")
        return value

    def list_of(self, key: str) -> list[object]:
        value = self.content.get(key)
        if value is not None and not isinstance(value, list):
            raise FormatError(f"config.json: {key} is not a list")
        return value or []

    def refuse_unknown_sizes(self) -> None:
        for key in self.content:
            if key.endswith(SIZE_ENDINGS) and key not in KNOWN_SIZES:
                raise FormatError(f"config.json: unknown size: {key}")


def _model(keys: _Keys, kind: str, name: str) -> ModelShape:
    hidden, layers = keys.number("hidden_size"), keys.number("num_hidden_layers")
    heads = keys.number("num_attention_heads")
    latent = _latent(keys) if kind.startswith("deepseek") else None
    kv_heads = keys.number("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise FormatError(f"config.json: num_key_value_heads {kv_heads} does not divide {heads} heads")
    if latent:
        head_dim = latent.v_head_dim
    elif "head_dim" not in keys.content and hidden % heads:
        raise FormatError(f"config.json: head_dim is missing, and {heads} heads do not divide {hidden}")
    else:
        head_dim = keys.number("head_dim", default=hidden // heads)
    dense = keys.number("intermediate_size_mlp" if kind == "llama4_text" else "intermediate_size")
    window, window_layers = _window(keys, kind, layers)
    return ModelShape(
        name=name, hidden_size=hidden, layers=layers, attention_heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, intermediate_size=dense, vocabulary=keys.number("vocab_size"),
        source="config.json", experts=_experts(keys, kind, layers) if kind in MIXED else None, latent=latent,
        tied_embeddings=keys.yes("tie_word_embeddings", default=kind.startswith("gemma")),
        window=window, window_layers=window_layers,
    )  # fmt: skip


def _latent(keys: _Keys) -> Latent:
    """DeepSeek's keys: configuration_deepseek_v3.py."""
    return Latent(
        keys.number("kv_lora_rank"), keys.number("qk_rope_head_dim"), keys.number("qk_nope_head_dim"),
        keys.number("v_head_dim"), keys.number("q_lora_rank", default=0, least=0),
    )  # fmt: skip


def _experts(keys: _Keys, kind: str, layers: int) -> Experts:
    counted = {
        "mixtral": "num_local_experts", "gpt_oss": "num_local_experts", "llama4_text": "num_local_experts",
        "qwen3_moe": "num_experts", "qwen2_moe": "num_experts",
    }.get(kind, "n_routed_experts")  # fmt: skip
    count, per_token = keys.number(counted), keys.number("num_experts_per_tok")
    if per_token > count:
        raise FormatError(f"config.json: num_experts_per_tok {per_token} is more than {counted} {count}")
    own = "intermediate_size" if kind in ("mixtral", "gpt_oss", "llama4_text") else "moe_intermediate_size"
    size = keys.number(own)
    shared = {
        "llama4_text": size,
        "qwen2_moe": keys.number("shared_expert_intermediate_size", default=0, least=0),
    }.get(kind, size * keys.number("n_shared_experts", default=0, least=0))
    return Experts(count, per_token, size, shared, _dense_layers(keys, kind, layers))


def _dense_layers(keys: _Keys, kind: str, layers: int) -> int:
    """Layers without experts: the first few (DeepSeek), every other (Llama 4), those listed (Qwen)."""
    if kind == "llama4_text":
        step = keys.number("interleave_moe_layer_step", default=1)
        return layers - layers // step
    if kind.startswith("deepseek"):
        if keys.number("moe_layer_freq", default=1) != 1:
            raise FormatError("config.json: moe_layer_freq other than 1 is not supported")
        return min(layers, keys.number("first_k_dense_replace", default=0, least=0))
    if kind.startswith("qwen"):
        step = keys.number("decoder_sparse_step", default=1)
        listed = set(map(str, keys.list_of("mlp_only_layers")))
        return sum(1 for n in range(layers) if str(n) in listed or (n + 1) % step)
    return 0


def _window(keys: _Keys, kind: str, layers: int) -> tuple[int, int]:
    """How many tokens layers with a window look back, and how many such layers there are.

    Newer configs list `layer_types`; in older ones Gemma 2 alternates, Gemma 3 has one full layer in six
    (`sliding_window_pattern`), Llama 4 chunks three layers in four, and Qwen has a switch that is off."""
    types = keys.list_of("layer_types")
    known = ("full_attention", "sliding_attention", "chunked_attention")
    for word in types:
        if word not in known:
            raise FormatError(f"config.json: layer_types: unknown type {str(word)[:40]!r}")
    if types and len(types) != layers:
        raise FormatError(f"config.json: layer_types has {len(types)} entries for {layers} layers")
    if kind == "llama4_text":
        size = keys.number("attention_chunk_size", default=8192)
        return size, sum(t == "chunked_attention" for t in types) if types else layers - layers // 4
    size = keys.number("sliding_window", default=0, least=0)
    if not size or (kind.startswith("qwen") and not keys.yes("use_sliding_window", default=False)):
        return 0, 0
    if types:
        windows = sum(t == "sliding_attention" for t in types)
    elif kind in ("gemma2", "gpt_oss"):
        windows = (layers + 1) // 2
    elif kind == "gemma3_text":
        pattern = keys.number(
            "sliding_window_pattern", default=keys.number("_sliding_window_pattern", default=6)
        )
        windows = layers - layers // pattern
    else:
        windows = layers
    return (size, windows) if windows else (0, 0)
