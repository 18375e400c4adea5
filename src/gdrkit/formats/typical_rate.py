"""The rate that is to be expected of machines that are alike, from the rates that they reach."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

ENOUGH = 0.9
"""A rate below this share of the typical one is slow; `gdr bench` exits with 1 if a path is below this
share of its limit at the largest size."""
SCATTER = 3.5
"""So many standard deviations from the median, by the median absolute deviation, make an outlier:
B. Iglewicz and D. Hoaglin, How to Detect and Handle Outliers (1993), section 3."""
DEVIATION = 1.4826
"""The standard deviation of a normal distribution in median absolute deviations: 1 / 0.6745."""


class ExpectedRate(NamedTuple):
    """What is to be expected, in the unit of the rates."""

    typical: float
    slow_below: float


def expected(best: Iterable[float]) -> ExpectedRate | None:
    """What is to be expected of machines, by the best rate of each; None without any.

    Typical is what half of them reach, so fewer than half may be slow. Slow is less than ENOUGH of it; where
    they scatter more than that, farther from it than they do."""
    rates = list(best)
    if not rates:
        return None
    typical = statistics.median_high(rates)
    scatter = statistics.median_low([abs(rate - typical) for rate in rates])
    return ExpectedRate(typical, min(ENOUGH * typical, typical - SCATTER * DEVIATION * scatter))
