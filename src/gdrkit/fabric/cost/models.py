"""The shapes of common language models, as far as their traffic depends on them.

Source of every row: the `config.json` of the model's own repository on huggingface.co, named beside the row.
The table is tested against another publication: the parameters of each shape add up to the published number.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

WeightType = Literal["bf16", "fp8", "mxfp4"]
WEIGHT_BYTES: dict[WeightType, float] = {"bf16": 2.0, "fp8": 1.0, "mxfp4": 17 / 32}
"""Of one element. MXFP4: 32 of four bits share a scale of eight; OCP Microscaling Formats 1.0, 5.2."""


class Latent(Struct, frozen=True):
    """Multi-head latent attention: the cache holds one compressed vector per token, not keys and values.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1; names as in config.json."""

    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int = 0  # 0: queries are not compressed


class Experts(Struct, frozen=True):
    """The mixture-of-experts feed-forward of a layer."""

    count: int  # routed experts of a layer
    per_token: int  # how many of them a token goes to
    intermediate_size: int  # of one expert
    shared_intermediate_size: int = 0  # of all shared experts together: every token goes to them
    dense_layers: int = 0  # layers whose feed-forward is dense nevertheless


class ModelShape(Struct, frozen=True):
    """A decoder. Sizes in elements."""

    name: str
    hidden_size: int
    layers: int
    attention_heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int  # of a dense feed-forward, which has three matrices (gate, up, down)
    vocabulary: int
    experts: Experts | None = None
    latent: Latent | None = None
    tied_embeddings: bool = False
    weights: WeightType = "bf16"  # of the published checkpoint

    @property
    def moe_layers(self) -> int:
        return self.layers - self.experts.dense_layers if self.experts else 0


_DEEPSEEK_V3_EXPERTS = Experts(256, 8, 2048, shared_intermediate_size=2048, dense_layers=3)
_DEEPSEEK_LATENT = Latent(512, 64, 128, 128, q_lora_rank=1536)
MODELS: tuple[ModelShape, ...] = (
    # name, hidden, layers, heads, KV heads, head dimension, feed-forward, words
    ModelShape("llama-2-7b", 4096, 32, 32, 32, 128, 11008, 32000),  # meta-llama/Llama-2-7b-hf
    ModelShape("llama-2-13b", 5120, 40, 40, 40, 128, 13824, 32000),  # meta-llama/Llama-2-13b-hf
    ModelShape("llama-2-70b", 8192, 80, 64, 8, 128, 28672, 32000),  # meta-llama/Llama-2-70b-hf
    ModelShape("llama-3-8b", 4096, 32, 32, 8, 128, 14336, 128256),  # meta-llama/Meta-Llama-3-8B
    ModelShape("llama-3-70b", 8192, 80, 64, 8, 128, 28672, 128256),  # meta-llama/Meta-Llama-3-70B
    ModelShape("llama-3.1-8b", 4096, 32, 32, 8, 128, 14336, 128256),  # meta-llama/Llama-3.1-8B
    ModelShape("llama-3.1-70b", 8192, 80, 64, 8, 128, 28672, 128256),  # meta-llama/Llama-3.1-70B
    ModelShape("llama-3.1-405b", 16384, 126, 128, 8, 128, 53248, 128256),  # meta-llama/Llama-3.1-405B
    ModelShape("llama-3.3-70b", 8192, 80, 64, 8, 128, 28672, 128256),  # meta-llama/Llama-3.3-70B-Instruct
    ModelShape(  # meta-llama/Llama-4-Scout-17B-16E
        "llama-4-scout", 5120, 48, 40, 8, 128, 16384, 202048,
        Experts(16, 1, 8192, shared_intermediate_size=8192),
    ),
    ModelShape(  # meta-llama/Llama-4-Maverick-17B-128E
        "llama-4-maverick", 5120, 48, 40, 8, 128, 16384, 202048,
        Experts(128, 1, 8192, shared_intermediate_size=8192, dense_layers=24),
    ),
    ModelShape("mistral-7b", 4096, 32, 32, 8, 128, 14336, 32000),  # mistralai/Mistral-7B-v0.1
    ModelShape(  # mistralai/Mixtral-8x7B-v0.1
        "mixtral-8x7b", 4096, 32, 32, 8, 128, 14336, 32000, Experts(8, 2, 14336),
    ),
    ModelShape(  # mistralai/Mixtral-8x22B-v0.1
        "mixtral-8x22b", 6144, 56, 48, 8, 128, 16384, 32768, Experts(8, 2, 16384),
    ),
    ModelShape("qwen2.5-7b", 3584, 28, 28, 4, 128, 18944, 152064),  # Qwen/Qwen2.5-7B
    ModelShape("qwen2.5-32b", 5120, 64, 40, 8, 128, 27648, 152064),  # Qwen/Qwen2.5-32B
    ModelShape("qwen2.5-72b", 8192, 80, 64, 8, 128, 29568, 152064),  # Qwen/Qwen2.5-72B
    ModelShape("qwen3-8b", 4096, 36, 32, 8, 128, 12288, 151936),  # Qwen/Qwen3-8B
    ModelShape("qwen3-32b", 5120, 64, 64, 8, 128, 25600, 151936),  # Qwen/Qwen3-32B
    ModelShape(  # Qwen/Qwen3-30B-A3B
        "qwen3-30b-a3b", 2048, 48, 32, 4, 128, 6144, 151936, Experts(128, 8, 768),
    ),
    ModelShape(  # Qwen/Qwen3-235B-A22B
        "qwen3-235b-a22b", 4096, 94, 64, 4, 128, 12288, 151936, Experts(128, 8, 1536),
    ),
    ModelShape(  # deepseek-ai/DeepSeek-V2
        "deepseek-v2", 5120, 60, 128, 128, 128, 12288, 102400,
        Experts(160, 6, 1536, shared_intermediate_size=3072, dense_layers=1), _DEEPSEEK_LATENT,
    ),
    ModelShape(  # deepseek-ai/DeepSeek-V3
        "deepseek-v3", 7168, 61, 128, 128, 128, 18432, 129280,
        _DEEPSEEK_V3_EXPERTS, _DEEPSEEK_LATENT, weights="fp8",
    ),
    ModelShape(  # deepseek-ai/DeepSeek-R1
        "deepseek-r1", 7168, 61, 128, 128, 128, 18432, 129280,
        _DEEPSEEK_V3_EXPERTS, _DEEPSEEK_LATENT, weights="fp8",
    ),
    ModelShape(  # openai/gpt-oss-20b
        "gpt-oss-20b", 2880, 24, 64, 8, 64, 2880, 201088, Experts(32, 4, 2880), weights="mxfp4",
    ),
    ModelShape(  # openai/gpt-oss-120b
        "gpt-oss-120b", 2880, 36, 64, 8, 64, 2880, 201088, Experts(128, 4, 2880), weights="mxfp4",
    ),
    ModelShape("gemma-2-9b", 3584, 42, 16, 8, 256, 14336, 256000, tied_embeddings=True),  # google/gemma-2-9b
    ModelShape(  # google/gemma-2-27b
        "gemma-2-27b", 4608, 46, 32, 16, 128, 36864, 256000, tied_embeddings=True,
    ),
    ModelShape(  # google/gemma-3-27b-it
        "gemma-3-27b", 5376, 62, 32, 16, 128, 21504, 262208, tied_embeddings=True,
    ),
)  # fmt: skip


class CostError(ValueError):
    """A name or numbers that do not describe a job; the message names the option."""


def known_model(name: str) -> ModelShape:
    """The model of that name; upper case and `_` for `-` are accepted. Raises CostError, which
    offers the closest names."""
    wanted = name.strip().lower().replace("_", "-").rpartition("/")[2]
    for model in MODELS:
        if model.name == wanted:
            return model
    from gdrkit.formats.misspelt import did_you_mean

    names = [model.name for model in MODELS]
    instead = did_you_mean(wanted, names) or f"; known: {', '.join(names)}"
    raise CostError(f"--model: unknown model: {name[:60]!r}{instead}")


# -- parameters and cache that follow from a shape: elements, not bytes ------------------------------------

GATED_MATRICES = 3  # gate, up and down: Shazeer, "GLU variants improve transformer", arXiv 2002.05202


def attention_parameters(model: ModelShape) -> int:
    """Elements of one layer's attention matrices.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.2, for latent attention; transformers'
    modeling_llama.py, LlamaAttention, for the rest. Biases and norms are left out: below 0.1 %."""
    hidden, heads = model.hidden_size, model.attention_heads
    if latent := model.latent:
        query_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim
        query = (
            hidden * latent.q_lora_rank + latent.q_lora_rank * heads * query_dim
            if latent.q_lora_rank
            else hidden * heads * query_dim
        )
        down = hidden * (latent.kv_lora_rank + latent.qk_rope_head_dim)
        up = latent.kv_lora_rank * heads * (latent.qk_nope_head_dim + latent.v_head_dim)
        return query + down + up + heads * latent.v_head_dim * hidden
    return hidden * model.head_dim * (2 * heads + 2 * model.kv_heads)


def expert_parameters(model: ModelShape) -> int:
    """Elements of one routed expert; 0 for a dense model."""
    return GATED_MATRICES * model.hidden_size * model.experts.intermediate_size if model.experts else 0


def dense_parameters(model: ModelShape) -> int:
    """Elements that every token uses, without embeddings: attention, dense and shared feed-forward."""
    dense_layers = model.layers - model.moe_layers
    total = model.layers * attention_parameters(model)
    total += dense_layers * GATED_MATRICES * model.hidden_size * model.intermediate_size
    if experts := model.experts:
        shared = GATED_MATRICES * model.hidden_size * experts.shared_intermediate_size
        total += model.moe_layers * (shared + model.hidden_size * experts.count)  # and the router
    return total


def head_parameters(model: ModelShape) -> int:
    """Elements of the matrix that produces logits, read in each step."""
    return model.hidden_size * model.vocabulary


def total_parameters(model: ModelShape) -> int:
    """Elements of the whole model, without norms and biases."""
    embeddings = head_parameters(model) * (1 if model.tied_embeddings else 2)
    experts = model.experts.count if model.experts else 0
    return embeddings + dense_parameters(model) + model.moe_layers * experts * expert_parameters(model)


def experts_touched(model: ModelShape, tokens: float) -> float:
    """How many of a layer's experts that many tokens reach on average, assuming even routing.

    Trained routers are close to even on average, and skewed for single batches."""
    if not model.experts:
        return 0.0
    count, per_token = model.experts.count, model.experts.per_token
    missed: float = (1 - per_token / count) ** tokens
    return count * (1 - missed)


def cache_elements(model: ModelShape) -> int:
    """Elements of one token in the cache of all layers: keys and values, or the latent vector."""
    if latent := model.latent:
        return model.layers * (latent.kv_lora_rank + latent.qk_rope_head_dim)
    return model.layers * 2 * model.kv_heads * model.head_dim
