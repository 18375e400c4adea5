"""The sections of a benchmark of a node's paths, and of what they cost a model."""

from __future__ import annotations

from typing import Any

from gdrkit.fabric.cost.document import STEPS, CostDocument, interval
from gdrkit.fabric.cost.steps import Span, StepOnPath
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.html.page import rich, safe, section, table
from gdrkit.transport.bench.document import BenchDocument, as_text, svg

AddedDocument = BenchDocument | CostDocument

POINTS_LIMIT = 1000
FASTEST_GB_PER_S = 1e6


def read(content: bytes) -> AddedDocument:
    """The JSON of `gdr bench` or of `gdr estimate --model`. Raises FormatError for any other, and for
    numbers that nothing can have measured."""
    kinds: Any = BenchDocument | CostDocument  # a union, which mypy takes for no type
    found: AddedDocument = json_text.decode(content, kinds)
    if isinstance(found, BenchDocument):
        _check(found)
    return found


def _check(bench: BenchDocument) -> None:
    points = [point for run in bench.runs for point in run.points]
    rates = [rate for p in points for rate in (p.gb_per_s, p.streaming_gb_per_s) if rate is not None]
    bounds = [limit.high_gb_per_s for limit in bench.limits]
    if len(points) > POINTS_LIMIT or len(bounds) > POINTS_LIMIT:
        raise FormatError(f"{len(points)} measurements are more than a benchmark makes")
    if not all(0 < point.size_bytes < 1 << 60 for point in points):
        raise FormatError("a message has no size")
    if not all(0 <= rate < FASTEST_GB_PER_S for rate in rates) or not all(
        0 < bound < FASTEST_GB_PER_S for bound in bounds
    ):
        raise FormatError("a rate that no link has")


def sections(added: tuple[AddedDocument, ...]) -> str:
    """A part of the page for each document."""
    benches = [one for one in added if isinstance(one, BenchDocument)]
    costs = [one for one in added if isinstance(one, CostDocument)]
    return "".join(
        (
            *(_bench(one, number) for number, one in enumerate(benches, 1)),
            *(_cost(one, number) for number, one in enumerate(costs, 1)),
        )
    )


def _bench(bench: BenchDocument, number: int) -> str:
    drawn = svg(bench)
    figure = f'<figure class="plot">{drawn}</figure>' if drawn else ""
    return section(
        f"measured-{number}",
        "Measured",
        f"{bench.here} to {bench.there}, one way, by `gdr bench`. A dashed line is a ceiling.",
        f"{figure}<details><summary><span>The numbers</span></summary>"
        '<pre class="wide-table" tabindex="0" role="region" aria-label="The numbers">'
        f"{_lines(as_text(bench))}</pre></details>",
    )


def _lines(text: str) -> str:
    return "\n".join(safe(line) for line in text.splitlines())


def _cost(cost: CostDocument, number: int) -> str:
    possible = {path.name for path in cost.paths if path.possible}
    rows = (
        (
            safe(STEPS[step.step]),
            f"<code>{safe(on.path)}</code>{'' if on.path in possible else ' (not possible here)'}",
            _time(on.time),
            _saving(on),
        )
        for step in cost.steps
        for on in step.paths
    )
    assumed = "".join(f"<li>{safe(words)}</li>" for words in cost.assumptions)
    return section(
        f"model-{number}",
        "What a missing path costs",
        f"An estimate for {cost.model} on {cost.layout.ranks} GPUs, by `gdr estimate --model`.",
        f"<p><b>{rich(cost.conclusion)}</b></p>"
        + table(("for", "over", "traffic takes", "the direct path saves"), rows)
        + f"<details><summary><span>Assumptions</span></summary><ul>{assumed}</ul></details>",
    )


def _time(span: Span) -> str:
    low, high = (1000 * bound for bound in (span.low_s, span.high_s))
    return f"{low:.3g} to {high:.3g} ms"


def _saving(on: StepOnPath) -> str:
    if on.path == "direct":
        return ""
    return "not known" if on.saved is None else interval(*on.saved)
