"""What GPUDirect RDMA would save a job on a node's paths, as a document and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gdrkit.fabric.ceilings.gpus import GpuRates
from gdrkit.fabric.ceilings.path_rates import PathRate
from gdrkit.fabric.cost.models import ModelShape, WeightType, total_parameters
from gdrkit.fabric.cost.steps import (
    COMPUTE_EFFICIENCY,
    MEMORY_EFFICIENCY,
    TOKENS,
    ParallelLayout,
    StepCost,
    StepName,
    StepOnPath,
    checked,
    steps,
)
from gdrkit.formats.plural import plural
from gdrkit.report.terminal import Row, render

STYLES = {"head": "bold", "quiet": "dim", "conclusion": "bold"}
STEPS: dict[StepName, str] = {"decode": "a token", "prefill": "the prompt", "training": "a training step"}

ASSUMPTIONS = (
    f"one request or sequence of {TOKENS} tokens per replica, attention over all of them, activations and "
    "gradients in BF16; more of them send and compute more, but gradients are sent once",
    "nothing is counted within a node, nor between kernels: published decode rates are below ours",
    "computing may hide the traffic of a prompt or a training step; a token waits for each call",
    "tokens choose experts evenly, and go to each node once, even for several of its experts",
)


class CostDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.cost/1"):
    """The output of `gdr estimate --model ... --json`. Bytes, seconds, GB/s of 1e9 bytes."""

    model: str
    parameters: int
    weights: WeightType  # of the published checkpoint
    layout: ParallelLayout
    gpu: str  # product; empty: its rates are not known
    paths: tuple[PathRate, ...]
    steps: tuple[StepCost, ...]
    conclusion: str
    assumptions: tuple[str, ...]


def document(
    model: ModelShape, layout: ParallelLayout, gpu: GpuRates | None, paths: tuple[PathRate, ...],
    assumed: Sequence[str] = (),
) -> CostDocument:  # fmt: skip
    """Every step on every path; `assumed` is what was assumed of the node, and comes first. Raises CostError
    for a layout that does not suit the model."""
    found = steps(model, checked(layout, model), gpu, paths)
    return CostDocument(
        model=model.name,
        parameters=total_parameters(model),
        weights=model.weights,
        layout=layout,
        gpu=gpu.name if gpu else "",
        paths=paths,
        steps=found,
        conclusion=_conclusion(layout, gpu, paths, found),
        assumptions=(*assumed, *ASSUMPTIONS, *((_rates(gpu),) if gpu else ())),
    )


def _conclusion(
    layout: ParallelLayout, gpu: GpuRates | None, paths: tuple[PathRate, ...], found: tuple[StepCost, ...]
) -> str:
    if not any(step.network_bytes for step in found):
        where = f"{plural(layout.ranks, 'GPU')} on {plural(layout.nodes, 'node')}"
        return f"Nothing of this job crosses the network ({where}): GPUDirect RDMA would save nothing."
    names = [path.name for path in paths]
    if gpu is None:
        return "The saving of GPUDirect is not known: the rates of this GPU are not known."
    if names[:1] != ["direct"] or len(names) == 1:
        missing = "no other path is known" if names == ["direct"] else "the direct path has no known limits"
        shown = "the same command without --model shows what is missing"
        return f"The saving of GPUDirect is not known: {missing} on this node; {shown}."
    would = "GPUDirect" if paths[0].possible else "GPUDirect, which this hardware cannot do,"
    saved = [(step.step, on.saved) for step in found for on in step.paths if on.path == names[1]]
    words = [f"{interval(*share)} of {STEPS[step]}" for step, share in saved if share and share[1]]
    listed = " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
    if not listed:
        return f"{would} would save you nothing compared with {names[1]}."
    return f"{would} would save you {listed}, compared with {names[1]}."


def _rates(gpu: GpuRates) -> str:
    memory, flop = (f"{low:.0%} to {high:.0%}" for low, high in (MEMORY_EFFICIENCY, COMPUTE_EFFICIENCY))
    return (
        f"{gpu.name}: {gpu.memory_gb_per_s:g} GB/s and {gpu.bf16_tflop_per_s:g} TFLOP/s of BF16, of which "
        f"{memory} and {flop} are reached; {gpu.source}"
    )


# -- text ------------------------------------------------------------------------------------------


def text(document: CostDocument, *, colour: bool = False, width: int | None = None) -> str:
    """The document as lines."""
    return render(_rows(document), STYLES, colour=colour, width=width)


def _rows(document: CostDocument) -> Iterator[Row]:
    layout = document.layout
    weights = f"{document.parameters / 1e9:.4g} billion parameters in {document.weights.upper()}"
    yield 0, "head", f"{document.model}: {weights}"
    degrees = (("tp", layout.tensor), ("ep", layout.expert), ("dp", layout.data), ("pp", layout.pipeline))
    parallelism = " ".join(f"{name} {value}" for name, value in degrees if value > 1) or "one GPU"
    gpus = f"{layout.ranks} x {document.gpu or 'GPU not known'}"
    yield 0, "", f"{parallelism}: {gpus} on {plural(layout.nodes, 'node')}"
    for step in document.steps:
        yield 0, "", ""
        yield from _step(step, document.paths)
    yield 0, "", ""
    yield 0, "conclusion", document.conclusion
    yield 0, "quiet", "assumptions:"
    for words in document.assumptions:
        yield 4, "quiet", words, "  - "


def _step(step: StepCost, paths: tuple[PathRate, ...]) -> Iterator[Row]:
    sent = f"{size(step.network_bytes)} in {plural(step.calls, 'call')} leave each node"
    yield 0, "head", f"{STEPS[step.step]}: {sent if step.network_bytes else 'stays within a node'}"
    if step.computing:
        yield 14, "none", f"{_times(step.computing.low_s, step.computing.high_s)}", "  computing"
    for path, on in zip(paths, step.paths, strict=True) if step.network_bytes else ():
        rate = f"{path.rate.low_gb_per_s:.3g} to {path.rate.high_gb_per_s:.3g} GB/s"
        note = "" if path.possible else "; not possible here"
        times = _times(on.time.low_s, on.time.high_s)
        yield 14, "none", f"{times} ({rate}, {path.limit}{note}){_saving(on)}", f"  {path.name}"


def _saving(on: StepOnPath) -> str:
    return f"; the direct path saves {interval(*on.saved)}" if on.saved and on.saved[1] else ""


def interval(low: float, high: float) -> str:
    """Bounds on a share as text: `3.0 % to 40 %`, or `up to 40 %`."""
    return f"{percent(low)} to {percent(high)}" if low else f"up to {percent(high)}"


def percent(share: float) -> str:
    """A share as text: `3.0 %`, `40 %`, and `under 0.1 %`."""
    value = share * 100
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.1f} %" if value < 10 else f"{value:.0f} %"


def size(count: float) -> str:
    """A number of bytes in decimal units: `16.4 kB`."""
    return _scaled(count, (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)))


def _times(low: float, high: float) -> str:
    return f"{seconds(low)} to {seconds(high)}"


def seconds(count: float) -> str:
    """A time as text: `1.9 ms`."""
    return _scaled(count, (("us", 1e-6), ("ms", 1e-3), ("s", 1.0)))


def _scaled(count: float, units: tuple[tuple[str, float], ...]) -> str:
    unit, factor = next((row for row in units if count < 1000 * row[1]), units[-1])
    return f"{count / factor:.3g} {unit}"
