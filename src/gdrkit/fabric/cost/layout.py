"""How ranks are laid out over nodes, and which of their groups cross the network.

Ranks that communicate most are closest: tensor, then expert and data, then pipeline, as Megatron-LM orders
them (megatron/core/parallel_state.py, order "tp-cp-ep-dp-pp"). Nodes are filled one after the other."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.cost.models import ModelShape

LIMIT = 1 << 20
"""The largest number of ranks, requests or tokens: a higher one is a typing error, and floats lose
exactness."""


class CostError(ValueError):
    """Numbers that do not describe a job; the message names the option."""


class RankGroup(Struct, frozen=True):
    """Ranks that take part in one collective."""

    ranks: int
    nodes: int

    @property
    def per_node(self) -> int:
        return -(-self.ranks // self.nodes)


class ParallelLayout(Struct, frozen=True, kw_only=True):
    """A job's parallelism, and how many of a node's GPUs it uses."""

    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    data: int = 1
    gpus_per_node: int = 1

    @property
    def stage_ranks(self) -> int:
        """GPUs of one pipeline stage."""
        return max(self.tensor * self.data, self.expert)

    @property
    def ranks(self) -> int:
        return self.stage_ranks * self.pipeline

    @property
    def nodes(self) -> int:
        return -(-self.ranks // self.gpus_per_node)

    @property
    def tensor_group(self) -> RankGroup:
        return RankGroup(self.tensor, -(-self.tensor // self.gpus_per_node))

    @property
    def expert_group(self) -> RankGroup:
        return RankGroup(self.expert, -(-self.expert // self.gpus_per_node))

    @property
    def data_group(self) -> RankGroup:
        """Every `tensor`-th rank: a node holds as many of them as it holds whole tensor groups."""
        per_node = max(1, self.gpus_per_node // self.tensor)
        return RankGroup(self.data, -(-self.data // per_node))

    @property
    def stages_apart(self) -> int:
        """Boundaries between pipeline stages that are also boundaries between nodes."""
        stages_per_node = self.gpus_per_node // self.stage_ranks
        if stages_per_node <= 1:
            return self.pipeline - 1
        return -(-self.pipeline // stages_per_node) - 1


def checked(layout: ParallelLayout, model: ModelShape) -> ParallelLayout:
    """The layout, if it suits this model. Raises CostError otherwise."""
    for name, value in (
        ("--tp", layout.tensor), ("--pp", layout.pipeline), ("--ep", layout.expert),
        ("--dp", layout.data), ("--gpus-per-node", layout.gpus_per_node),
    ):  # fmt: skip
        positive(name, value)
    if model.attention_heads % layout.tensor:
        raise CostError(f"--tp {layout.tensor} does not divide {model.name}'s {model.attention_heads} heads")
    if layout.pipeline > model.layers:
        raise CostError(f"--pp {layout.pipeline} is more than {model.name}'s {model.layers} layers")
    if layout.expert > 1 and model.experts is None:
        raise CostError(f"--ep {layout.expert}: {model.name} has no experts")
    if model.experts and model.experts.count % layout.expert:
        raise CostError(f"--ep {layout.expert} does not divide {model.name}'s {model.experts.count} experts")
    for option, ranks in (("--tp", layout.tensor), ("--ep", layout.expert)):
        if ranks > layout.gpus_per_node and ranks % layout.gpus_per_node:
            raise CostError(f"{option} {ranks} does not fill nodes of {layout.gpus_per_node} GPUs evenly")
    return layout


def positive(name: str, value: int, least: int = 1) -> int:
    """The value, if it is within bounds. Raises CostError otherwise."""
    if not least <= value <= LIMIT:
        raise CostError(f"{name} {value}: must be a number from {least} to {LIMIT}")
    return value
