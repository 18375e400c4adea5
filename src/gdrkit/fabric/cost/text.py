"""The cost of a job, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.fabric.cost.cost import Cost, PhaseCost
from gdrkit.fabric.cost.document import CostDocument, crossing, percent, seconds, size
from gdrkit.fabric.cost.models_size import cache_elements, cache_tokens, total_parameters
from gdrkit.fabric.cost.traffic import Traffic
from gdrkit.report.terminal import WIDTH, Row, render

STYLES = {"head": "bold", "quiet": "dim", "conclusion": "bold"}

NARROW = 90
"""In fewer columns the rows of a table are sentences."""

COLLECTIVES = {"collective": -15, "calls": 6, "payload": 10, "sent by rank": 14, "messages": 10}
PATHS = {"path": -12, "GB/s": 14, "on the network": 22, "share of the step": 20}
"""The columns of a table with their widths, negative if they begin at the left; a last one has the rest."""

TITLES = {
    "decode": "decode: one token for every request",
    "prefill": "prefill: all prompts once",
    "training": "training: one step",
    "kv-transfer": "cache transfer: from the prefill node to the decode node",
}


def text(document: CostDocument, *, colour: bool = False, width: int | None = None) -> str:
    """The document as lines."""
    is_narrow = (width or WIDTH) < NARROW
    return render(_rows(document, is_narrow), STYLES, colour=colour, width=width)


def _rows(document: CostDocument, is_narrow: bool) -> Iterator[Row]:
    cost = document.cost
    yield from _head(cost)
    for step in cost.steps:
        yield 0, "", ""
        yield from _step(step, is_narrow)
    for words in document.unknown:
        yield 0, "quiet", f"? {words}"
    yield 0, "", ""
    yield 0, "conclusion", document.conclusion
    yield 0, "quiet", "assumptions:"
    for words in document.assumptions:
        yield 4, "quiet", words, "  - "


def _head(cost: Cost) -> Iterator[Row]:
    job, layout, model = cost.job, cost.job.layout, cost.job.model
    token = cache_tokens(model, 1) * cache_elements(model)
    parameters = f"{total_parameters(model) / 1e9:.4g} billion parameters"
    yield 0, "head", f"{model.name}: {parameters}, {token} elements of cache per token"
    degrees = (
        ("tp", layout.tensor), ("ep", layout.expert), ("dp", layout.data), ("pp", layout.pipeline),
    )  # fmt: skip
    parallelism = " ".join(f"{name} {value}" for name, value in degrees if value > 1) or "one GPU"
    gpu = job.gpu.name if job.gpu else "GPU not known"
    nodes = "1 node" if layout.nodes == 1 else f"{layout.nodes} nodes"
    tokens = f"batch {job.batch}, prompt {job.prompt}, output {job.output}"
    work = f"{tokens}; {job.dtype}, cache {job.kv_dtype}"
    yield 0, "", f"{parallelism}: {layout.ranks} x {gpu} on {nodes}; {work}"
    held = cost.weights_bytes + cost.cache_bytes
    capacity = f", of {job.gpu.memory_gb:g} GB" if job.gpu else ""
    fits = ": DOES NOT FIT" if job.gpu and held > job.gpu.memory_gb * 1e9 else ""
    parts = f"{size(cost.weights_bytes)} of weights"
    if cost.cache_bytes:
        parts += f" and {size(cost.cache_bytes)} of cache"
    yield 0, "", f"each GPU holds {parts}{capacity}{fits}"


def _step(step: PhaseCost, is_narrow: bool) -> Iterator[Row]:
    yield 0, "head", TITLES[step.phase]
    table = [_traffic(row) for row in step.traffic]
    yield from _table(COLLECTIVES, "data", table, is_narrow)
    yield 2, "", f"leaves each node: {crossing(step)}" if step.network_bytes else "stays within a node"
    if step.compute:
        low, high = step.compute.time.low_s, step.compute.time.high_s
        work = f"{size(step.compute.read_bytes)} read, {step.compute.flop / 1e12:.3g} TFLOP"
        yield (
            2,
            "",
            f"computing: {seconds(low)} to {seconds(high)}, bound by {step.compute.bound} ({work})",
        )
    if step.network_bytes:
        yield from _table(PATHS, "limit", _paths(step), is_narrow)


def _table(
    columns: dict[str, int], last: str, rows: list[tuple[str, ...]], is_narrow: bool
) -> Iterator[Row]:
    """Rows of as many cells as there are columns, and one more, which is wrapped within its column."""

    def cells(words: Iterable[str]) -> str:
        padded = zip(words, columns.values(), strict=False)
        return "  " + "".join(w.ljust(-size) if size < 0 else w.rjust(size) for w, size in padded) + "  "

    head = cells(columns)
    if not is_narrow and rows:
        yield len(head), "quiet", last, head
    for row in rows:
        if is_narrow:
            first, *others = zip(row, (*columns, last), strict=True)
            words = "; ".join(f"{name} {cell}" for cell, name in others if cell)
            yield 6, "none", words, f"  {first[0]}: "
        else:
            yield len(head), "none", row[-1], cells(row)


def _traffic(row: Traffic) -> tuple[str, ...]:
    """One collective: its payload, what one rank sends per call, and in how many messages."""
    often = f", {row.per_layer:g} per layer" if row.per_layer else ""
    inside = "" if row.network_bytes else " (within a node)"
    return (
        row.kind.value, str(row.calls), size(row.payload_bytes), size(row.sent_bytes), str(row.messages),
        f"{row.what}{often}{inside}",
    )  # fmt: skip


def _paths(step: PhaseCost) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for on in step.paths:
        path = on.path
        rate = f"{path.bandwidth_low_gb_per_s:.3g} to {path.bandwidth_high_gb_per_s:.3g}"
        spent = f"{seconds(on.communication.low_s)} to {seconds(on.communication.high_s)}"
        share = "all" if step.phase == "kv-transfer" else "unknown"
        if on.share:
            share = f"{percent(on.share[0])} to {percent(on.share[1])}".replace("under ", "<")
        limit = path.limit.partition(":")[0] or path.source
        note = "" if path.possible else "not possible; "
        found.append((path.name, rate, spent, share, f"{note}{limit}"))
    return found
