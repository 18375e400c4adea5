"""Writes docs/measurements.md of the table in tests/fabric/ceilings/published.py.

uv run --no-sync python -m tools.measurements
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path

from tests.fabric.ceilings.published import COPIES, PORTS, PUBLISHED, SPARKS, Published

PAGE = Path(__file__).parent.parent / "docs" / "measurements.md"

HEAD = """\
# Published measurements beside our ceilings

Made by `python -m tools.measurements`; do not edit. Every row is a bandwidth that somebody published,
with the hardware as far as the source states it. *Bounds* is what `gdr estimate` reckons for that hardware
in the same unit: nothing goes faster than the upper bound, tuned runs reach the lower one. *Off* is how far
the middle of the bounds is from what was measured, for the rows where one link or port is all that limits
the run; a dash stands where something else does, by the source's own word or by the method. What a source
does not state (most often MaxPayload and MTU) widens the bounds; a GPU's link is that of the product.

A measurement may pass the upper bound by its own error: 0.2 % for tools that reckon with a processor's
clock, half the last digit for rounded numbers, and what a note says.
"""


def page() -> str:
    """The page as text."""
    errors = [row.prediction_error for row in PUBLISHED if row.saturates]
    others = sum(row.source != "measured for gdrkit" for row in PUBLISHED)
    summary = (
        f"\n{len(PUBLISHED)} rows, {others} of them by others. None exceeds its upper bound by more than\n"
        f"its error. Where one link or port is the limit ({len(errors)} rows), the middle of the bounds is\n"
        f"off by {statistics.median(errors):.1%} in the median and by {max(errors):.1%} at most.\n"
    )
    return (
        HEAD
        + summary
        + "".join(
            f"\n## {title}\n\n{_table(rows)}"
            for title, rows in (
                ("DGX Spark and its relatives", SPARKS),
                ("Ports and NICs", PORTS),
                ("Copies between GPU and host memory", COPIES),
            )
        )
    )


def _table(rows: Iterable[Published]) -> str:
    lines = ["| What | On | Measured | Bounds | Off | Source |", "|---|---|---|---|---|---|"]
    for row in rows:
        scale = row.value / row.gb_per_s
        low, high = (bound * scale for bound in (row.ceiling.low_gb_per_s, row.ceiling.high_gb_per_s))
        off = f"{row.prediction_error:.1%}" if row.saturates else "-"
        note = f"; {row.note}" if row.note else ""
        bounds = f"{_number(low)} to {_number(high)}"
        cells = (row.what, row.hardware, f"{row.value:g} {row.unit}", bounds, off, f"{row.source}{note}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


if __name__ == "__main__":
    PAGE.write_text(page())
