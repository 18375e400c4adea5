"""The shapes of common language models, as far as their traffic depends on them.

Source of every row: the `config.json` of the model's own repository on huggingface.co, named in the row. The
table is tested against another publication: the parameters of each shape add up to the published number.
(Meta's own `llama-models/models/sku_list.py` gives Llama 2 7B and 13B eight KV heads and Llama 3's
vocabulary; the checkpoints have 32 and 40 heads and 32000 words, as in config.json and the Llama 2 paper.)
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
    source: str
    experts: Experts | None = None
    latent: Latent | None = None
    tied_embeddings: bool = False
    weights: WeightType = "bf16"  # of the published checkpoint

    @property
    def moe_layers(self) -> int:
        return self.layers - self.experts.dense_layers if self.experts else 0


def _row(
    name: str,
    sizes: tuple[int, int, int, int, int, int, int],
    repository: str,
    experts: Experts | None = None,
    latent: Latent | None = None,
    tied: bool = False,
    weights: WeightType = "bf16",
) -> ModelShape:
    hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary = sizes
    return ModelShape(
        name, hidden, layers, heads, kv_heads, head_dim, intermediate, vocabulary,
        f"huggingface.co/{repository}/blob/main/config.json", experts, latent, tied, weights,
    )  # fmt: skip


_DEEPSEEK_V3_EXPERTS = Experts(256, 8, 2048, shared_intermediate_size=2048, dense_layers=3)
_DEEPSEEK_V3_LATENT = Latent(512, 64, 128, 128, q_lora_rank=1536)
_DEEPSEEK_V3_SIZES = (7168, 61, 128, 128, 128, 18432, 129280)

# name, (hidden, layers, heads, KV heads, head dim, intermediate, vocabulary), repository
MODELS: tuple[ModelShape, ...] = (
    _row("llama-2-7b", (4096, 32, 32, 32, 128, 11008, 32000), "meta-llama/Llama-2-7b-hf"),
    _row("llama-2-13b", (5120, 40, 40, 40, 128, 13824, 32000), "meta-llama/Llama-2-13b-hf"),
    _row("llama-2-70b", (8192, 80, 64, 8, 128, 28672, 32000), "meta-llama/Llama-2-70b-hf"),
    _row("llama-3-8b", (4096, 32, 32, 8, 128, 14336, 128256), "meta-llama/Meta-Llama-3-8B"),
    _row("llama-3-70b", (8192, 80, 64, 8, 128, 28672, 128256), "meta-llama/Meta-Llama-3-70B"),
    _row("llama-3.1-8b", (4096, 32, 32, 8, 128, 14336, 128256), "meta-llama/Llama-3.1-8B"),
    _row("llama-3.1-70b", (8192, 80, 64, 8, 128, 28672, 128256), "meta-llama/Llama-3.1-70B"),
    _row("llama-3.1-405b", (16384, 126, 128, 8, 128, 53248, 128256), "meta-llama/Llama-3.1-405B"),
    _row("llama-3.3-70b", (8192, 80, 64, 8, 128, 28672, 128256), "meta-llama/Llama-3.3-70B-Instruct"),
    _row(
        "llama-4-scout", (5120, 48, 40, 8, 128, 16384, 202048), "meta-llama/Llama-4-Scout-17B-16E",
        Experts(16, 1, 8192, shared_intermediate_size=8192),
    ),
    _row(
        "llama-4-maverick", (5120, 48, 40, 8, 128, 16384, 202048), "meta-llama/Llama-4-Maverick-17B-128E",
        Experts(128, 1, 8192, shared_intermediate_size=8192, dense_layers=24),
    ),
    _row("mistral-7b", (4096, 32, 32, 8, 128, 14336, 32000), "mistralai/Mistral-7B-v0.1"),
    _row(
        "mixtral-8x7b", (4096, 32, 32, 8, 128, 14336, 32000), "mistralai/Mixtral-8x7B-v0.1",
        Experts(8, 2, 14336),
    ),
    _row(
        "mixtral-8x22b", (6144, 56, 48, 8, 128, 16384, 32768), "mistralai/Mixtral-8x22B-v0.1",
        Experts(8, 2, 16384),
    ),
    _row("qwen2.5-7b", (3584, 28, 28, 4, 128, 18944, 152064), "Qwen/Qwen2.5-7B"),
    _row("qwen2.5-32b", (5120, 64, 40, 8, 128, 27648, 152064), "Qwen/Qwen2.5-32B"),
    _row("qwen2.5-72b", (8192, 80, 64, 8, 128, 29568, 152064), "Qwen/Qwen2.5-72B"),
    _row("qwen3-8b", (4096, 36, 32, 8, 128, 12288, 151936), "Qwen/Qwen3-8B"),
    _row("qwen3-32b", (5120, 64, 64, 8, 128, 25600, 151936), "Qwen/Qwen3-32B"),
    _row(
        "qwen3-30b-a3b", (2048, 48, 32, 4, 128, 6144, 151936), "Qwen/Qwen3-30B-A3B",
        Experts(128, 8, 768),
    ),
    _row(
        "qwen3-235b-a22b", (4096, 94, 64, 4, 128, 12288, 151936), "Qwen/Qwen3-235B-A22B",
        Experts(128, 8, 1536),
    ),
    _row(
        "deepseek-v2", (5120, 60, 128, 128, 128, 12288, 102400), "deepseek-ai/DeepSeek-V2",
        Experts(160, 6, 1536, shared_intermediate_size=3072, dense_layers=1),
        Latent(512, 64, 128, 128, q_lora_rank=1536),
    ),
    _row(
        "deepseek-v3", _DEEPSEEK_V3_SIZES, "deepseek-ai/DeepSeek-V3", _DEEPSEEK_V3_EXPERTS,
        _DEEPSEEK_V3_LATENT, weights="fp8",
    ),
    _row(
        "deepseek-r1", _DEEPSEEK_V3_SIZES, "deepseek-ai/DeepSeek-R1", _DEEPSEEK_V3_EXPERTS,
        _DEEPSEEK_V3_LATENT, weights="fp8",
    ),
    _row(
        "gpt-oss-20b", (2880, 24, 64, 8, 64, 2880, 201088), "openai/gpt-oss-20b",
        Experts(32, 4, 2880), weights="mxfp4",
    ),
    _row(
        "gpt-oss-120b", (2880, 36, 64, 8, 64, 2880, 201088), "openai/gpt-oss-120b",
        Experts(128, 4, 2880), weights="mxfp4",
    ),
    _row(
        "gemma-2-9b", (3584, 42, 16, 8, 256, 14336, 256000), "google/gemma-2-9b",
        tied=True,
    ),
    _row(
        "gemma-2-27b", (4608, 46, 32, 16, 128, 36864, 256000), "google/gemma-2-27b",
        tied=True,
    ),
    _row(
        "gemma-3-27b", (5376, 62, 32, 16, 128, 21504, 262208), "google/gemma-3-27b-it",
        tied=True,
    ),
)  # fmt: skip


class UnknownModel(ValueError):
    """A name that is not in the table; the message offers the closest ones."""


def known_model(name: str) -> ModelShape:
    """The model of that name; upper case and `_` for `-` are accepted. Raises UnknownModel."""
    wanted = name.strip().lower().replace("_", "-").rpartition("/")[2]
    for model in MODELS:
        if model.name == wanted:
            return model
    from gdrkit.formats.misspelt import did_you_mean

    names = [model.name for model in MODELS]
    instead = did_you_mean(wanted, names) or f"; known: {', '.join(names)}"
    raise UnknownModel(f"unknown model: {name[:60]!r}{instead}")
