"""The cost of a job on a node's paths, as sentences and as a document."""

from __future__ import annotations

from msgspec import Struct

from gdrkit.fabric.cost.cost import Cost, Phase, PhaseCost, PhaseOnPath, Saving
from gdrkit.fabric.cost.gpus import COMPUTE_EFFICIENCY, FRAMEWORK_FACTOR, MEMORY_EFFICIENCY

PHASES: dict[Phase, str] = {
    "decode": "a token",
    "prefill": "the prompt",
    "training": "a training step",
    "kv-transfer": "the cache transfer",
}


class CostDocument(Struct, frozen=True, tag_field="schema", tag="gdrkit.cost/1"):
    """The output of `gdr estimate --model ... --json`. Bytes, seconds, GB/s of 1e9 bytes."""

    cost: Cost
    conclusion: str
    assumptions: tuple[str, ...]
    unknown: tuple[str, ...]


def document(cost: Cost, unknown: tuple[str, ...] = ()) -> CostDocument:
    return CostDocument(cost, conclusion(cost), assumptions(cost), unknown)


def conclusion(cost: Cost) -> str:
    """The closing sentence."""
    layout, paths = cost.job.layout, cost.steps[0].paths
    if not any(step.network_bytes for step in cost.steps):
        ranks = "1 GPU" if layout.ranks == 1 else f"{layout.ranks} GPUs"
        nodes = "1 node" if layout.nodes == 1 else f"{layout.nodes} nodes"
        crossing = f"Nothing of this job crosses the network ({ranks} on {nodes})"
        return f"{crossing}: GPUDirect RDMA would save nothing."
    unknown = "The saving of GPUDirect is not known"
    direct = [on.path for on in paths if on.path.name == "direct"]
    if not direct:
        return f"{unknown}: the direct path has no known limits on this node; see --path."
    other = fallback(paths)
    if other is None:
        return f"{unknown}: no other path of this node is known; see --path."
    sending = {step.phase for step in cost.steps if step.network_bytes}
    saved = [one for one in cost.savings if one.instead_of == other and one.phase in sending]
    if not saved:
        return f"{unknown}: the computing rate of this GPU is unknown; see --gpu."
    would = "GPUDirect" if direct[0].possible else "GPUDirect, which this hardware cannot do,"
    if not any(one.high for one in saved):
        return f"{would} would save you nothing compared with {other}."
    savings = " and ".join(filter(None, (", ".join(map(_saved, saved[:-1])), _saved(saved[-1]))))
    return f"{would} would save you {savings}, compared with {other}."


def fallback(paths: tuple[PhaseOnPath, ...]) -> str | None:
    """The path used without GPUDirect: staged, or what the hardware has instead."""
    has = {on.path.name: on.path.possible for on in paths}
    for name in ("staged", "host-mapped", "socket"):
        if has.get(name):
            return name
    return None


def _saved(saving: Saving) -> str:
    low, high = (percent(bound) if bound else "0" for bound in (saving.low, saving.high))
    return f"{percent(saving.middle)} of {PHASES[saving.phase]} ({low} to {high})"


def percent(share: float) -> str:
    """A share as text: `3 %`, `0.4 %`, `under 0.1 %`, and `nothing` for 0."""
    value = share * 100
    if value == 0:
        return "nothing"
    if value < 0.1:
        return "under 0.1 %"
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


def assumptions(cost: Cost) -> tuple[str, ...]:
    """The assumptions behind the numbers."""
    layout, job = cost.job.layout, cost.job
    gpus = f"{layout.gpus_per_node} GPU{'s' if layout.gpus_per_node > 1 else ''}"
    lines = [
        f"nodes of {gpus}, tensor groups innermost, then experts and data, then pipeline stages",
        "lower bounds hide all hideable traffic behind computing, upper bounds none; a token's all-reduces"
        " cannot be hidden, since the next layer waits for them",
        "collectives cost what NCCL's own tuning model computes; within a node they cost hops, no bandwidth",
    ]
    if job.gpu is not None:
        memory, flop = (f"{low:.0%} to {high:.0%}" for low, high in (MEMORY_EFFICIENCY, COMPUTE_EFFICIENCY))
        lines.append(
            f"{job.gpu.name}: {job.gpu.memory_gb_per_s:g} GB/s and {job.gpu.bf16_tflop_per_s:g} TFLOP/s of "
            f"BF16, of which {memory} and {flop} are reached; {job.gpu.source}"
        )
    if layout.expert > 1:
        lines.append(
            "tokens choose experts evenly, and go to each node once, even for several of its experts"
        )
    if any(step.phase == "decode" for step in cost.steps):
        middle = job.prompt + job.output // 2
        lines.append(f"the token of a decode step is in the middle of the output, after {middle} tokens")
        low, high = FRAMEWORK_FACTOR
        lines.append(
            "the framework's own time is left out: sampling, scheduling, and the gaps between kernels; "
            f"published decode rates lie {low:g} to {high:g} times below the fastest step shown here"
        )
    if job.training:
        lines.append("gradients are summed in BF16, and the stages of a pipeline never wait for each other")
        lines.append("gradients and the optimizer's state also need memory, which is not counted")
    return tuple(lines)


def crossing(step: PhaseCost) -> str:
    """What a step sends out of a node: `2.77 MB in 162 calls`."""
    calls = sum(row.calls for row in step.traffic if row.network_bytes)
    return f"{size(step.network_bytes)} in {calls} call{'s' if calls != 1 else ''}"


def size(count: float) -> str:
    """A number of bytes in decimal units: `16.4 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def seconds(count: float) -> str:
    """A time as text: `1.9 ms`."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if count * factor < 1000:
            return f"{count * factor:.3g} {unit}"
    return f"{count:.3g} s"
