"""The ceilings of one pair as a drawing: for each path a bar from its lowest to its highest rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.html.page import safe

WIDTH, FIRST, LAST, ROW = 388, 132, 300, 17
"""Pixels: the drawing, where bars begin and end at most, and the height of a row."""


def ceiling_chart(chains: Sequence[Chain]) -> str:
    """An SVG, or "" where no rate is known. Below the first path stand its limits, the tightest dark."""
    known = [chain for chain in chains if chain.rate is not None]
    if not known:
        return ""
    rates = [limit.rate for limit in known[0].limits] + [chain.rate for chain in known if chain.rate]
    top = max(rate.high_gb_per_s for rate in rates) or 1
    rows = [row for number, chain in enumerate(known) for row in _rows(chain, limits=number == 0)]
    lines, words = [], []
    for number, (name, low, high, names) in enumerate(rows):
        middle = 12 + ROW * number
        left, right = (FIRST + (LAST - FIRST) * rate / top for rate in (low, high))
        height = 8 if "path" in names else 4
        lines.append(
            f'<text class="{names}" x="{0 if "path" in names else 10}" y="{middle + 4}">{safe(name)}</text>'
            f'<rect class="{names}" x="{left:.1f}" y="{middle - height / 2:g}" height="{height}"'
            f' width="{max(2, right - left):.1f}"/>'
            f'<text class="{names} end" x="{WIDTH - 2}" y="{middle + 4}">{_rate(low, high)}</text>'
        )
        words.append(f"{name} {low:.1f} to {high:.1f}")
    height = 24 + ROW * len(rows)
    return (
        f'<svg class="ceilings" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="Ceilings in GB/s: {safe("; ".join(words))}">{"".join(lines)}'
        f'<text class="end dim" x="{WIDTH - 2}" y="{height - 4}">GB/s, one direction</text></svg>'
    )


def _rate(low: float, high: float) -> str:
    return f"{low:.1f}\N{EN DASH}{high:.1f}" if high else "nothing"


def _rows(chain: Chain, *, limits: bool) -> Iterator[tuple[str, float, float, str]]:
    """The path, then its limits if they are wanted: name, lowest and highest rate, classes."""
    assert chain.rate is not None
    yield chain.path, chain.rate.low_gb_per_s, chain.rate.high_gb_per_s, f"path {chain.path}"
    for limit in chain.limits if limits else ():
        tight = " tight" if limit is chain.tightest or limit == chain.tightest else ""
        yield limit.name, limit.rate.low_gb_per_s, limit.rate.high_gb_per_s, f"limit{tight}"
