"""A benchmark of paths as a document, a table, CSV, and a plot of bandwidth over message size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Literal

from msgspec import Struct

from gdrkit.transport.path_names import PathName

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""The palette of Okabe and Ito, which people with colour blindness can distinguish."""
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 860, 480, 64, 44, 190, 52


class SizePoint(Struct, frozen=True):
    """The results for one message size. Times are one way, GB/s are 10**9 bytes per second, `checked` is
    whether the received bytes were correct. None: not measured or not checked. `repeats` 0: not reported.
    """

    size_bytes: int
    repeats: int
    median_us: float | None
    tail_us: float | None
    gb_per_s: float | None
    streaming_gb_per_s: float | None
    checked: bool | None

    @property
    def best_gb_per_s(self) -> float:
        """The higher rate of single messages and streaming; 0 if only times were measured."""
        return max(self.gb_per_s or 0.0, self.streaming_gb_per_s or 0.0)


class PathRun(Struct, frozen=True):
    """One path's points, or in `unavailable` the reason why it is not available."""

    path: PathName | Literal["nccl"]
    points: tuple[SizePoint, ...] = ()
    unavailable: str = ""
    tool: str = "gdrkit"


class PathBound(Struct, frozen=True):
    """A limit of some paths: an interval in GB/s, and the source of the numbers."""

    name: str
    paths: tuple[PathName, ...]
    low_gb_per_s: float
    high_gb_per_s: float
    source: str


class BenchDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.bench/1"):
    """The document of `gdr bench --json`."""

    kind: Literal["pair", "loopback", "host"]
    here: str
    there: str
    runs: tuple[PathRun, ...]
    limits: tuple[PathBound, ...]


def limit_of(document: BenchDocument, path: str) -> PathBound | None:
    """The lowest limit of a path, or None."""
    found = [limit for limit in document.limits if path in limit.paths]
    return min(found, key=lambda limit: limit.high_gb_per_s, default=None)


def as_text(document: BenchDocument, *, first: int = 24) -> str:
    """The document as a table, whose first column has so many characters."""
    lines = [f"{document.kind}: {document.here} to {document.there}, one way", ""]
    for limit in document.limits:
        interval = _interval(limit)
        lines.append(f"limit of {', '.join(limit.paths)}: {interval}, {limit.name} ({limit.source})")
    lines += [""] if document.limits else []
    for run in document.runs:
        if run.unavailable:
            lines += [f"{_name(run)}: not measured: {run.unavailable}", ""]
            continue
        lines += [*_rows(run, limit_of(document, run.path), first), ""]
    return "\n".join(lines)


def _rows(run: PathRun, limit: PathBound | None, first: int) -> Iterable[str]:
    share = "  of limit" if limit else ""
    head = f"{'median us':>10}{'99 % us':>10}{'GB/s':>8}{'streaming':>11}{share}"
    if len(_name(run)) < first:
        yield f"{_name(run):<{first}}{head}"
    else:
        yield from (_name(run), f"{'':<{first}}{head}")
    for point in run.points:
        row = (
            f"{f'  {size(point.size_bytes)}':<{first}}"
            f"{_cell(point.median_us, 10, 1)}{_cell(point.tail_us, 10, 1)}"
            f"{_cell(point.gb_per_s, 8, 2)}{_cell(point.streaming_gb_per_s, 11, 2)}"
        )
        if limit and point.best_gb_per_s:
            row += f"{point.best_gb_per_s / limit.high_gb_per_s:>10.0%}"
        yield row + "  BYTES DIFFER" if point.checked is False else row


def _name(run: PathRun) -> str:
    return run.path if run.tool == "gdrkit" else f"{run.path} ({run.tool})"


def _cell(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None else f"{value:>{width}.{digits}f}"


def csv(document: BenchDocument) -> str:
    """The document as CSV: a header, and a line for each path and size (RFC 4180)."""
    lines = ["path,tool,size_bytes,repeats,median_us,p99_us,gb_per_s,streaming_gb_per_s,checked"]
    for run in document.runs:
        for point in run.points:
            lines.append(
                f"{run.path},{run.tool},{point.size_bytes},{point.repeats or ''},"
                f"{_plain(point.median_us, 3)},{_plain(point.tail_us, 3)},{_plain(point.gb_per_s, 4)},"
                f"{_plain(point.streaming_gb_per_s, 4)},"
                f"{'' if point.checked is None else str(point.checked).lower()}"
            )
    return "\r\n".join(lines) + "\r\n"


def _plain(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def size(size_bytes: int) -> str:
    """A size with a binary unit, e.g. 64 KiB."""
    for unit, step in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= step and size_bytes % step == 0:
            return f"{size_bytes // step} {unit}"
    return f"{size_bytes} B"


def svg(document: BenchDocument) -> str:
    """An SVG of bandwidth over message size, both on logarithmic axes, with the limits. Self-contained,
    without scripts. Empty if no bandwidth was measured.
    """
    points = [point for run in document.runs for point in run.points if point.best_gb_per_s]
    if not points:
        return ""
    values = [value for point in points for value in (point.gb_per_s, point.streaming_gb_per_s) if value]
    values += [limit.high_gb_per_s for limit in document.limits]
    x = _Axis(min(point.size_bytes for point in points), max(point.size_bytes for point in points), 2)
    y = _Axis(min(values), max(values) * 1.1, 10)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" aria-label="bandwidth over message size">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(document.kind)}: {escape(document.here)} to '
        f"{escape(document.there)}, one way</text>",
        *_grid(x, y),
    ]
    labels: list[float] = []
    for limit in document.limits:
        level = y.scale(limit.high_gb_per_s, _HEIGHT - _BOTTOM, _TOP)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{level:.1f}" y2="{level:.1f}" stroke="#555" '
            f'stroke-dasharray="6 4"><title>{escape(limit.source)}</title></line>'
        )
        parts.append(_label(level, labels, "#555", f"{limit.name} {limit.high_gb_per_s:.1f}"))
    for run, colour in zip(document.runs, _COLOURS * len(document.runs), strict=False):
        if any(point.best_gb_per_s for point in run.points):
            parts += _curve(run, colour, x, y, labels)
    return "\n".join([*parts, "</svg>", ""])


class _Axis(Struct, frozen=True):
    """A logarithmic axis from `low` to `high`, with marks at powers of `base`."""

    low: float
    high: float
    base: int

    def scale(self, value: float, start: float, end: float) -> float:
        span = math.log(self.high / self.low) or 1.0
        return start + (end - start) * math.log(max(value, self.low) / self.low) / span

    def marks(self) -> list[float]:
        first = math.ceil(math.log(self.low, self.base) - 1e-9)
        last = math.floor(math.log(self.high, self.base) + 1e-9)
        step = max(1, -(-(last - first) // 8))
        marks = [float(self.base) ** power for power in range(first, last + 1, step)]
        if self.base == 10 and len(marks) < 4:  # few decades: add marks at 2 and 5
            marks += [mark * part for mark in (marks or [10.0**first]) for part in (0.2, 0.5, 2, 5)]
        return sorted({mark for mark in marks if self.low <= mark <= self.high})


def _grid(x: _Axis, y: _Axis) -> Iterable[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    for mark in x.marks():
        across = x.scale(mark, _LEFT, right)
        yield f'<line x1="{across:.1f}" x2="{across:.1f}" y1="{_TOP}" y2="{bottom}" stroke="#ddd"/>'
        yield f'<text x="{across:.1f}" y="{bottom + 18}" text-anchor="middle">{size(int(mark))}</text>'
    for mark in y.marks():
        up = y.scale(mark, bottom, _TOP)
        yield f'<line x1="{_LEFT}" x2="{right}" y1="{up:.1f}" y2="{up:.1f}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 8}" y="{up + 4:.1f}" text-anchor="end">{mark:g}</text>'
    yield f'<text x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 10}" text-anchor="middle">message size</text>'
    yield f'<text x="16" y="{_TOP - 10}">GB/s</text>'


def _curve(run: PathRun, colour: str, x: _Axis, y: _Axis, labels: list[float]) -> Iterable[str]:
    """One path's lines: solid for single messages, dotted for streaming."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    last = bottom * 1.0
    for dashes, values in (
        ("", [(point.size_bytes, point.gb_per_s) for point in run.points]),
        (' stroke-dasharray="2 3"', [(point.size_bytes, point.streaming_gb_per_s) for point in run.points]),
    ):
        drawn = [(of, value) for of, value in values if value]
        if not drawn:
            continue
        coordinates = [(x.scale(of, _LEFT, right), y.scale(value, bottom, _TOP)) for of, value in drawn]
        path = " ".join(f"{across:.1f},{up:.1f}" for across, up in coordinates)
        yield f'<polyline fill="none" stroke="{colour}" stroke-width="2"{dashes} points="{path}"/>'
        for (across, up), (of, value) in zip(coordinates, drawn, strict=True):
            yield (
                f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3" fill="{colour}">'
                f"<title>{escape(run.path)} {size(of)}: {value:.2f} GB/s</title></circle>"
            )
        last = coordinates[-1][1]
    name = run.path if run.tool == "gdrkit" else f"{run.path}, {run.tool}"
    yield _label(last, labels, colour, name)


def _label(level: float, taken: list[float], colour: str, text: str) -> str:
    """A label at the right, moved down until it does not overlap another."""
    while any(abs(level - other) < 15 for other in taken):
        level += 4
    taken.append(level)
    return f'<text x="{_WIDTH - _RIGHT + 8}" y="{level + 4:.1f}" fill="{colour}">{escape(text)}</text>'


def _interval(limit: PathBound) -> str:
    if limit.low_gb_per_s == limit.high_gb_per_s:
        return f"{limit.high_gb_per_s:.1f} GB/s"
    return f"{limit.low_gb_per_s:.1f} to {limit.high_gb_per_s:.1f} GB/s"
