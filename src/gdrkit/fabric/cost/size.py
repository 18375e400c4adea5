"""The parameters, arithmetic and cache that follow from a model's shape. Elements and FLOP, not bytes."""

from __future__ import annotations

from gdrkit.fabric.cost.models import ModelShape

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
    routed = model.moe_layers * (model.experts.count if model.experts else 0) * expert_parameters(model)
    return embeddings + dense_parameters(model) + routed


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


def attention_flop(model: ModelShape, prompt: int) -> float:
    """FLOP of scores and weighted sums for one prompt, causal: half of the square.

    Source: two multiply-adds per head dimension for scores and as many for values (Narayanan et al., arXiv
    2104.04473, appendix), halved for the mask."""
    if latent := model.latent:
        dims = latent.qk_nope_head_dim + latent.qk_rope_head_dim + latent.v_head_dim
    else:
        dims = 2 * model.head_dim
    return model.layers * model.attention_heads * dims * prompt * (prompt + 1)
