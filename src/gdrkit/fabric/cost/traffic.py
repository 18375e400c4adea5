"""The bytes and messages that one step sends between ranks, by kind of parallelism.

Sources: tensor and sequence parallelism, Shoeybi et al., arXiv 1909.08053, section 3, and Korthikanti et
al., arXiv 2205.05198, section 4.2; pipeline, Narayanan et al., arXiv 2104.04473; experts, DeepSeek-V3,
arXiv 2412.19437, section 3.2.2 (one copy per node), and github.com/deepseek-ai/DeepEP (FP8 out, BF16 back);
data, Rajbhandari et al., arXiv 1910.02054, section 7."""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct

from gdrkit.fabric.cost.layout import ParallelLayout, RankGroup
from gdrkit.fabric.cost.models import ModelShape
from gdrkit.fabric.cost.models_size import cache_elements, cache_tokens, total_parameters
from gdrkit.fabric.cost.paths import PathCost, Span, all_reduce, point_to_point, ring_pass


class CollectiveKind(enum.StrEnum):
    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_TO_ALL = "all-to-all"
    SEND = "send"


ACTIVATION_BYTES = 2  # BF16 between ranks, for weights of any type: vLLM, Megatron-LM


Parallelism = Literal["tensor", "pipeline", "expert", "data", "kv-transfer"]


class Traffic(Struct, frozen=True):
    """One collective, and how often a step calls it."""

    what: str  # "attention and feed-forward outputs"
    parallelism: Parallelism
    kind: CollectiveKind
    group: RankGroup
    payload_bytes: float  # of one call, on one rank, before the collective's own factor
    calls: int  # in a step, one after the other
    per_layer: float  # calls in one layer that has them
    sent_bytes: float  # by one rank in one call
    messages: int  # by one rank in one call
    network_bytes: float  # out of one node in one call; 0 if the group is in one node

    def time(self, path: PathCost) -> Span:
        """Seconds of one step's calls over this path; 0 if no call crosses nodes."""
        if self.network_bytes == 0:
            return Span()
        match self.kind:
            case CollectiveKind.ALL_REDUCE:
                one = all_reduce(path, self.group, self.payload_bytes)
            case CollectiveKind.ALL_GATHER | CollectiveKind.REDUCE_SCATTER:
                one = ring_pass(path, self.group, self.payload_bytes)
            case CollectiveKind.ALL_TO_ALL:
                one = point_to_point(path, self.network_bytes, self.group.nodes - 1)
            case CollectiveKind.SEND:
                one = point_to_point(path, self.network_bytes)
        return one.times(self.calls)


def _reduced(
    what: str,
    parallelism: Parallelism,
    kind: CollectiveKind,
    group: RankGroup,
    payload: float,
    calls: int,
    per_layer: float,
) -> Traffic:
    """A ring collective: (n-1)/n of the payload per pass, in n-1 messages."""
    passes = 2 if kind is CollectiveKind.ALL_REDUCE else 1
    sent = passes * payload * (group.ranks - 1) / group.ranks
    crossing = sent if group.nodes > 1 else 0.0
    return Traffic(
        what, parallelism, kind, group, payload, calls, per_layer, sent, passes * (group.ranks - 1), crossing
    )


def tensor_traffic(
    model: ModelShape, layout: ParallelLayout, tokens: int, logits: int, *, sequence: bool, training: bool
) -> tuple[Traffic, ...]:
    """Two all-reduces per layer, or as many pairs of reduce-scatter and all-gather, with the same bytes; the
    backward pass of training doubles them. Expert parallelism replaces that of the feed-forward. Then one
    for the word embeddings, and an all-gather of the logits (inference only: training reduces its loss in
    place)."""
    if layout.tensor == 1:
        return ()
    group, passes = layout.tensor_group, 2 if training else 1
    payload = float(tokens * model.hidden_size * ACTIVATION_BYTES)
    calls = 2 * model.layers - (model.moe_layers if layout.expert > 1 else 0)
    what = "attention and feed-forward"
    found: list[Traffic] = []
    kinds = (
        (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALL_GATHER)
        if sequence
        else (CollectiveKind.ALL_REDUCE,)
    )
    for kind in kinds:
        found.append(_reduced(what, "tensor", kind, group, payload, calls * passes, 2.0 * passes))
    found.append(
        _reduced("word embeddings", "tensor", CollectiveKind.ALL_REDUCE, group, payload, passes, 0.0)
    )
    if not training:
        words = float(logits * model.vocabulary * ACTIVATION_BYTES)
        found.append(_reduced("logits", "tensor", CollectiveKind.ALL_GATHER, group, words, 1, 0.0))
    return tuple(found)


def pipeline_traffic(
    model: ModelShape, layout: ParallelLayout, tokens: int, *, training: bool
) -> tuple[Traffic, ...]:
    """Hidden states from stage to stage, and their gradients back. vLLM also sends the residual, which
    doubles the bytes; each rank of a tensor group sends a share."""
    if layout.pipeline == 1:
        return ()
    payload = float(tokens * model.hidden_size * ACTIVATION_BYTES)
    calls = (layout.pipeline - 1) * (2 if training else 1)
    apart = layout.stages_apart * (2 if training else 1)
    what = "hidden states between stages"
    sent = payload / layout.tensor
    rows = []
    for number, nodes in ((apart, 2), (calls - apart, 1)):
        if number:
            crossing = payload if nodes == 2 else 0.0
            rows.append(
                Traffic(
                    what,
                    "pipeline",
                    CollectiveKind.SEND,
                    RankGroup(2, nodes),
                    payload,
                    number,
                    0.0,
                    sent,
                    1,
                    crossing,
                )
            )
    return tuple(rows)


def nodes_reached(experts: int, per_token: int, nodes: int) -> float:
    """Nodes other than its own that a token goes to on average, if every choice of experts is equally
    likely.

    A node is missed if all chosen experts are on other nodes; hypergeometric."""
    here = experts // nodes
    missed = 1.0
    for index in range(per_token):
        missed *= max(0, experts - here - index) / (experts - index)
    return (nodes - 1) * (1 - missed)


def expert_traffic(
    model: ModelShape, layout: ParallelLayout, tokens: int, dispatch_bytes: float, *, training: bool
) -> tuple[Traffic, ...]:
    """Each token to its experts, and their outputs back. A rank holds tokens/ep of the group's tokens;
    between nodes a token goes once to each node, within a node once to each expert."""
    experts = model.experts
    if experts is None or layout.expert == 1:
        return ()
    group = layout.expert_group
    own = tokens * layout.data / group.ranks
    copies = experts.per_token * (group.ranks - 1) / group.ranks
    between = nodes_reached(experts.count, experts.per_token, group.nodes)
    calls = model.moe_layers * (2 if training else 1)
    rows = []
    for what, size in (
        ("tokens to experts", dispatch_bytes),
        ("experts' outputs back", float(ACTIVATION_BYTES)),
    ):
        token = model.hidden_size * size
        rows.append(
            Traffic(
                what, "expert", CollectiveKind.ALL_TO_ALL, group, own * experts.per_token * token, calls,
                2.0 if training else 1.0, own * copies * token, group.ranks - 1,
                own * group.per_node * between * token,
            )
        )  # fmt: skip
    return tuple(rows)


def data_traffic(
    model: ModelShape, layout: ParallelLayout, gradient_bytes: float, *, training: bool
) -> tuple[Traffic, ...]:
    """Gradients, each summed once per step: reduce-scatter, then all-gather. Inference sends nothing. The
    GPUs of a node are in separate groups, which share the network."""
    if layout.data == 1 or not training:
        return ()
    group = layout.data_group
    payload = total_parameters(model) * gradient_bytes / (layout.tensor * layout.pipeline)
    together = min(layout.tensor, layout.gpus_per_node)
    rows = []
    for what, kind in (
        ("gradients", CollectiveKind.REDUCE_SCATTER),
        ("updated weights", CollectiveKind.ALL_GATHER),
    ):
        row = _reduced(what, "data", kind, group, payload * together, 1, 0.0)
        sent = row.sent_bytes / together
        rows.append(
            Traffic(
                what, "data", kind, group, payload * together, 1, 0.0, sent, row.messages, row.network_bytes
            )
        )
    return tuple(rows)


def cache_traffic(model: ModelShape, tokens_per_request: int, batch: int, element_bytes: float) -> Traffic:
    """The prompts' caches, from the prefill node to the decode node: once per request, always across the
    network. Each layer is sent once it is computed, in a message of its own."""
    payload = batch * cache_tokens(model, tokens_per_request) * cache_elements(model) * element_bytes
    return Traffic(
        "prompts' caches",
        "kv-transfer",
        CollectiveKind.SEND,
        RankGroup(2, 2),
        payload,
        1,
        0.0,
        payload,
        model.layers,
        payload,
    )
