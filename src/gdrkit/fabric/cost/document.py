"""What GPUDirect RDMA would save a job on a node's paths, as a document and as text."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.fabric.ceilings.chain import PathName
from gdrkit.fabric.ceilings.gpus import GpuRates
from gdrkit.fabric.cost.machine import PathRate
from gdrkit.fabric.cost.models import ModelShape
from gdrkit.fabric.cost.size import total_parameters
from gdrkit.fabric.cost.steps import (
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    TOKENS,
    Fraction,
    ParallelLayout,
    StepCost,
    StepName,
    StepOnPath,
    checked,
    steps,
    weight_bytes_per_gpu,
)
from gdrkit.report.terminal import Row, render

STYLES = {"head": "bold", "quiet": "dim", "conclusion": "bold"}
STEPS: dict[StepName, str] = {"decode": "a token", "prefill": "the prompt", "training": "a training step"}


class Saving(Struct, frozen=True):
    """How much shorter a step is on the direct path than on another one, as shares of the other's step."""

    step: StepName
    instead_of: PathName
    low: Fraction  # 0 where computing may hide all traffic
    high: Fraction


class CostDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.cost/1"):
    """The output of `gdr estimate --model ... --json`. Bytes, seconds, GB/s of 1e9 bytes."""

    model: ModelShape
    layout: ParallelLayout
    gpu: GpuRates | None  # null: its rates are not known
    ranks: int
    nodes: int
    weights_bytes: float  # on one GPU
    paths: tuple[PathRate, ...]
    steps: tuple[StepCost, ...]
    savings: tuple[Saving, ...]
    conclusion: str
    assumptions: tuple[str, ...]
    unknown: tuple[str, ...]


def document(
    model: ModelShape,
    layout: ParallelLayout,
    gpu: GpuRates | None,
    paths: tuple[PathRate, ...],
    unknown: tuple[str, ...] = (),
) -> CostDocument:
    """Every step on every path. Raises CostError for a layout that does not suit the model."""
    found = steps(model, checked(layout, model), gpu, paths)
    saved = tuple(saving for step in found for saving in savings(step))
    return CostDocument(
        model=model, layout=layout, gpu=gpu, ranks=layout.ranks, nodes=layout.nodes,
        weights_bytes=weight_bytes_per_gpu(model, layout), paths=paths, steps=found, savings=saved,
        conclusion=_conclusion(layout, paths, found, saved), assumptions=tuple(_assumptions(gpu, layout)),
        unknown=unknown,
    )  # fmt: skip


def savings(step: StepCost) -> Iterator[Saving]:
    """The direct path compared with every other; none if the computing time is unknown. The paths share
    network and collective, so best is compared with best and worst with worst. The next layer of a token
    waits for the traffic; prompts and training steps can be split, so that one half computes while the other
    is sent (DeepSeek-V3, arXiv 2412.19437, sections 3.2.1 and 3.4.1)."""
    direct = next((on for on in step.paths if on.path == "direct"), None)
    if direct is None or step.computing is None:
        return
    for other in step.paths:
        if other is not direct:
            found = _gains(step, direct, other)
            yield Saving(step.step, other.path, min(found) if step.step == "decode" else 0.0, max(found))


def _gains(step: StepCost, direct: StepOnPath, other: StepOnPath) -> list[float]:
    busy = (step.computing.low_s, step.computing.high_s) if step.computing else ()
    bounds = ((direct.time.low_s, other.time.low_s), (direct.time.high_s, other.time.high_s))
    return [
        max(0.0, (theirs - ours) / (computing + theirs)) for computing in busy for ours, theirs in bounds
    ]


def _conclusion(
    layout: ParallelLayout,
    paths: tuple[PathRate, ...],
    found: tuple[StepCost, ...],
    saved: tuple[Saving, ...],
) -> str:
    sending = {step.step for step in found if step.network_bytes}
    if not sending:
        where = f"{_count(layout.ranks, 'GPU')} on {_count(layout.nodes, 'node')}"
        return f"Nothing of this job crosses the network ({where}): GPUDirect RDMA would save nothing."
    direct = next((path for path in paths if path.name == "direct"), None)
    other = next(
        (name for name in ("staged", "host-mapped", "socket")
         if any(path.name == name and path.possible for path in paths)), None,
    )  # fmt: skip
    unknown = "The saving of GPUDirect is not known"
    if direct is None or other is None:
        missing = "the direct path has no known limits" if direct is None else "no other path is known"
        return f"{unknown}: {missing} on this node."
    compared = [one for one in saved if one.instead_of == other and one.step in sending]
    if not compared:
        return f"{unknown}: the rates of this GPU are not known."
    would = "GPUDirect" if direct.possible else "GPUDirect, which this hardware cannot do,"
    if not any(one.high for one in compared):
        return f"{would} would save you nothing compared with {other}."
    words = [f"{_interval(one.low, one.high)} of {STEPS[one.step]}" for one in compared]
    listed = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    return f"{would} would save you {listed}, compared with {other}."


def _assumptions(gpu: GpuRates | None, layout: ParallelLayout) -> Iterator[str]:
    yield (
        f"one request or sequence of {TOKENS} tokens per replica, attention over all of them, activations "
        "and gradients in BF16; more of them send and compute more, but gradients are sent once"
    )
    yield "nothing is counted within a node, nor between kernels: published decode rates are below ours"
    yield "computing may hide the traffic of a prompt or a training step; a token waits for each call"
    if layout.expert > 1:
        yield "tokens choose experts evenly, and go to each node once, even for several of its experts"
    if gpu is not None:
        memory, flop = (f"{low:.0%} to {high:.0%}" for low, high in (MEMORY_EFFICIENCY, COMPUTE_EFFICIENCY))
        yield (
            f"{gpu.name}: {gpu.memory_gb_per_s:g} GB/s and {gpu.bf16_tflop_per_s:g} TFLOP/s of BF16, of "
            f"which {memory} and {flop} are reached; {gpu.source}"
        )


# -- text ------------------------------------------------------------------------------------------


def text(document: CostDocument, *, colour: bool = False, width: int | None = None) -> str:
    """The document as lines."""
    return render(_rows(document), STYLES, colour=colour, width=width)


def _rows(document: CostDocument) -> Iterator[Row]:
    model, layout, gpu = document.model, document.layout, document.gpu
    yield (
        0,
        "head",
        f"{model.name}: {total_parameters(model) / 1e9:.4g} billion parameters in {model.weights.upper()}",
    )
    degrees = (("tp", layout.tensor), ("ep", layout.expert), ("dp", layout.data), ("pp", layout.pipeline))
    parallelism = " ".join(f"{name} {value}" for name, value in degrees if value > 1) or "one GPU"
    held = f"each holds {size(document.weights_bytes)} of weights"
    if gpu is not None:
        held += f", of {gpu.memory_gb:g} GB"
        held += ": DOES NOT FIT" if document.weights_bytes > gpu.memory_gb * 1e9 else ""
    name = gpu.name if gpu else "GPU not known"
    yield 0, "", f"{parallelism}: {layout.ranks} x {name} on {_count(layout.nodes, 'node')}; {held}"
    for step in document.steps:
        yield 0, "", ""
        yield from _step(step, document.paths)
    for words in document.unknown:
        yield 0, "quiet", f"? {words}"
    yield 0, "", ""
    yield 0, "conclusion", document.conclusion
    yield 0, "quiet", "assumptions:"
    for words in document.assumptions:
        yield 4, "quiet", words, "  - "


def _step(step: StepCost, paths: tuple[PathRate, ...]) -> Iterator[Row]:
    sent = f"{size(step.network_bytes)} in {_count(step.calls, 'call')} leave each node"
    yield 0, "head", f"{STEPS[step.step]}: {sent if step.network_bytes else 'stays within a node'}"
    if step.computing:
        yield 14, "none", f"{_times(step.computing.low_s, step.computing.high_s)}", "  computing"
    for path, on in zip(paths, step.paths, strict=True) if step.network_bytes else ():
        share = "share not known" if on.share is None else f"{_interval(*on.share)} of the step"
        rate = f"{path.rate.low_gb_per_s:.3g} to {path.rate.high_gb_per_s:.3g} GB/s"
        note = "" if path.possible else "; not possible here"
        times = _times(on.time.low_s, on.time.high_s)
        yield 14, "none", f"{times}, {share} ({rate}, {path.limit}{note})", f"  {path.name}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _interval(low: float, high: float) -> str:
    return f"{percent(low)} to {percent(high)}" if low else f"up to {percent(high)}"


def percent(share: float) -> str:
    """A share as text: `3.0 %`, `40 %`, and `under 0.1 %`."""
    value = share * 100
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


def size(count: float) -> str:
    """A number of bytes in decimal units: `16.4 kB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _times(low: float, high: float) -> str:
    return f"{seconds(low)} to {seconds(high)}"


def seconds(count: float) -> str:
    """A time as text: `1.9 ms`."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if count * factor < 1000:
            return f"{count * factor:.3g} {unit}"
    return f"{count:.3g} s"
