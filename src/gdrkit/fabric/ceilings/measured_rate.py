"""A measured rate compared with its ceiling, in words."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from msgspec import Struct

from gdrkit.fabric.ceilings.chain import Limit
from gdrkit.fabric.ceilings.interval import BITS, Interval

ROUNDING = 1.002
"""How far a measurement may exceed a ceiling before one of them must be wrong: both are rounded, and
perftest's clock is calibrated against the processor's frequency. The closest in docs/measurements.md agree
to 1e-5."""

CLOSE = 0.91
"""From this share of the upper bound on, tuning cannot gain more than published runs differ by: 8.4 % at
most, docs/measurements.md."""

RISING = 1.05
"""A rate that grows by more than this from one size to the next has not reached its plateau."""

NAMES = {
    "gpu-link": "the PCIe link of GPU",
    "gpu-c2c": "the NVLink-C2C of GPU",
    "gpu-links": "the PCIe links of",
    "switch-uplink": "the PCIe switch's link",
    "root-complex": "the root complex between",
    "nic-link": "the PCIe link of",
    "port": "the port of",
    "host-copy": "copying through host memory by GPU",
    "tcp": "TCP over",
    "network": "the network of this node,",
    "nvlink": "NVLink between",
}
"""How a sentence names a limit, before its subject."""


class MeasuredRate(Struct, frozen=True, kw_only=True):
    """One run, and what it shows. The share is of the ceiling's upper bound."""

    what: str  # ib_write_bw on mlx5_0
    gb_per_s: float | None  # the plateau; null where the run shows none
    gbit_per_s: float | None
    ceiling: Interval | None
    tightest: Limit | None
    share: float | None
    sentences: tuple[str, ...]


def reading(
    what: str,
    gb_per_s: float | None = None,
    *,
    ceiling: Interval | None = None,
    tightest: Limit | None = None,
    share: float | None = None,
    sentences: tuple[str, ...] = (),
) -> MeasuredRate:
    """A measured rate; what is not given is not known."""
    return MeasuredRate(
        what=what,
        gb_per_s=gb_per_s,
        gbit_per_s=None if gb_per_s is None else gb_per_s * BITS,
        ceiling=ceiling,
        tightest=tightest,
        share=share,
        sentences=sentences,
    )


def describe_limit(limit: Limit) -> str:
    """A limit as part of a sentence."""
    return f"{NAMES.get(limit.name, limit.name)} {limit.subject}"


NO_CEILING = (
    "The ceiling of this run is not known: this node shows no port and link that limit it. If it was"
    " measured on another node, name that one, or a bundle of it: `gdr estimate TARGET --measured FILE`."
)


def judged(
    what: str,
    gb_per_s: float,
    ceiling: Interval | None,
    tightest: Limit | None,
    sentences: Iterable[str] = (),
) -> MeasuredRate:
    """A measured rate with a sentence on its share of the ceiling. Tuned runs reach at least the ceiling's
    lower bound."""
    if ceiling is not None and tightest is not None and ceiling.high_gb_per_s <= 0:
        down = f"On this node {describe_limit(tightest)} is down: its ceiling is not known."
        return reading(what, gb_per_s, sentences=(*sentences, down))
    if ceiling is None or tightest is None:
        return reading(what, gb_per_s, sentences=(*sentences, NO_CEILING))
    share = gb_per_s / ceiling.high_gb_per_s
    return reading(
        what,
        gb_per_s,
        ceiling=ceiling,
        tightest=tightest,
        share=share,
        sentences=(*sentences, _verdict(share, gb_per_s, ceiling, tightest)),
    )


def _verdict(share: float, gb_per_s: float, ceiling: Interval, tightest: Limit) -> str:
    link, high = describe_limit(tightest), ceiling.high_gb_per_s
    if share > ROUNDING:
        return (
            f"{gb_per_s:.2f} GB/s is more than {link} can carry ({high:.2f}): either the run did not cross "
            "it, or its output is misread here. Two ends on one machine, two ports or both directions can "
            "cause this."
        )
    at = f"You are at {share * 100:.0f} % of what {link} can do ({high:.2f} GB/s; {tightest.description})"
    if gb_per_s < ceiling.low_gb_per_s:
        return f"{at}. Tuned runs reach at least {ceiling.low_gb_per_s:.2f}: something else limits this one."
    if not ceiling.low_gb_per_s:
        return f"{at}. No lower bound of tuned runs is known for this operation and size."
    if share >= CLOSE:
        return f"{at}: this is the ceiling, and tuning cannot raise it."
    return f"{at}. Tuned runs reach {ceiling.low_gb_per_s:.2f} and more, and so does this one."


def plateau(rates: Mapping[int, float]) -> tuple[float | None, tuple[str, ...]]:
    """The rate of the largest messages in GB/s, and notes on it, from rates by size in bytes.

    Never an average over all sizes, since small ones are bound by latency: only sizes within a factor of
    four of the largest count."""
    if not rates:
        return None, ("The run shows no rate.",)
    largest = max(rates)
    top = {size: rate for size, rate in rates.items() if size * 4 >= largest}
    notes: list[str] = []
    before = [size for size in rates if size * 2 <= largest]
    if before and rates[largest] > RISING * rates[max(before)]:
        notes.append(
            f"The rate still rises at the largest size, {largest} bytes: the plateau is beyond it; measure "
            "larger sizes."
        )
        return rates[largest], tuple(notes)
    return statistics.median_high(top.values()), ()
