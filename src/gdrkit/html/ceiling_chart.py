"""The ceilings of one pair as a drawing: for each path a bar from its lowest to its highest rate.

It is drawn here and not by a chart library: matplotlib writes styles into attributes and pygal a style and
a script of its own, which the content security policy of a report forbids, and a few bars do not justify
what would be the largest dependency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gdrkit.fabric.ceilings.chain import Chain
from gdrkit.html.page import safe

WIDTH, FIRST, LAST, ROW = 388, 132, 300, 17
"""Pixels: the drawing, where bars begin and end at most, and the height of a row."""

NAMES = {
    "gpu-link": "GPU link", "gpu-c2c": "NVLink-C2C", "gpu-links": "GPU links",
    "switch-uplink": "switch uplink", "root-complex": "root complex", "nic-link": "NIC link",
    "host-copy": "copy on the host", "tcp": "TCP", "nvlink": "NVLink",
}  # fmt: skip
"""Limits as words; others keep their name."""


def ceiling_chart(chains: Sequence[Chain]) -> str:
    """An SVG, or "" where no rate is known. Below the first path stand its limits, the tightest dark."""
    known = [chain for chain in chains if chain.rate is not None]
    if not known:
        return ""
    rates = [limit.rate for limit in known[0].limits] + [chain.rate for chain in known if chain.rate]
    ticks = steps(max(rate.high_gb_per_s for rate in rates))
    rows = [row for number, chain in enumerate(known) for row in _rows(chain, limits=number == 0)]
    lines, words = [], []
    bottom = 6 + ROW * len(rows)
    for tick in ticks:
        x = FIRST + (LAST - FIRST) * tick / ticks[-1]
        lines.append(f'<path class="grid" d="M{x:.1f} 2V{bottom}"/>')
        lines.append(f'<text class="dim mid" x="{x:.1f}" y="{bottom + 13}">{tick:g}</text>')
    for number, (name, low, high, names) in enumerate(rows):
        middle = 12 + ROW * number
        left, right = (FIRST + (LAST - FIRST) * rate / ticks[-1] for rate in (low, high))
        height = 8 if "path" in names else 4
        lines.append(
            f'<text class="{names}" x="{0 if "path" in names else 10}" y="{middle + 4}">{safe(name)}</text>'
            f'<text class="{names} end" x="{WIDTH - 2}" y="{middle + 4}">{_rate(low, high)}</text>'
        )
        if high:
            lines.append(
                f'<rect class="{names}" x="{left:.1f}" y="{middle - height / 2:g}" height="{height}"'
                f' width="{max(2, right - left):.1f}"/>'
            )
        words.append(f"{name} {low:.1f} to {high:.1f}")
    return (
        f'<svg class="ceilings" viewBox="0 0 {WIDTH} {bottom + 18}" role="img"'
        f' aria-label="Ceilings in GB/s, one direction: {safe("; ".join(words))}">{"".join(lines)}'
        f'<text class="end dim" x="{WIDTH - 2}" y="{bottom + 13}">GB/s</text></svg>'
    )


def steps(high: float) -> list[float]:
    """Three to six round numbers from 0 on, of which the last is not below `high`."""
    if high <= 0:
        return [0, 1]
    size = 10 ** math.floor(math.log10(high))
    step = next(size * part for part in (0.2, 0.5, 1, 2) if high <= 5 * size * part)
    return [step * number for number in range(math.ceil(high / step) + 1)]


def _rate(low: float, high: float) -> str:
    return f"{low:.1f}\N{EN DASH}{high:.1f}" if high else "nothing"


def _rows(chain: Chain, *, limits: bool) -> Iterator[tuple[str, float, float, str]]:
    """The path, then its limits if they are wanted: name, lowest and highest rate, classes."""
    assert chain.rate is not None
    yield chain.path, chain.rate.low_gb_per_s, chain.rate.high_gb_per_s, f"path {chain.path}"
    for limit in chain.limits if limits else ():
        tight = " tight" if limit is chain.tightest or limit == chain.tightest else ""
        name = NAMES.get(limit.name, limit.name)
        yield name, limit.rate.low_gb_per_s, limit.rate.high_gb_per_s, f"limit{tight}"
