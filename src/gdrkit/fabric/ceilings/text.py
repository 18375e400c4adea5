"""A node's ceilings, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gdrkit.fabric.ceilings.chain import Chain, Limit
from gdrkit.fabric.ceilings.document import CardEstimate, EstimateDocument, PairEstimate
from gdrkit.fabric.ceilings.interval import Interval
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate
from gdrkit.fabric.ceilings.node_links import CommonPoint
from gdrkit.formats.gpu_slot import with_slots
from gdrkit.report.terminal import Row, render

STYLES = {"head": "bold", "quiet": "dim", "tightest": "bold", "conclusion": "bold"}

COMMON_POINTS = {
    CommonPoint.SWITCH: "behind one PCIe switch",
    CommonPoint.ROOT_COMPLEX: "through the processor",
    CommonPoint.SOCKETS: "between two processors",
    CommonPoint.UNKNOWN: "with an unknown common point",
}
PAIRS_SHOWN = 8
"""How many pairs with the same ceilings are named; --json has all."""


def text(document: EstimateDocument, *, colour: bool = False, width: int | None = None) -> str:
    """The document as lines."""
    return render(_rows(document), STYLES, colour=colour, width=width)


def measured_text(document: EstimateDocument, *, colour: bool = False, width: int | None = None) -> str:
    """The measured rates as lines."""
    return render(_measured(document.measured), STYLES, colour=colour, width=width)


def _rows(document: EstimateDocument) -> Iterator[Row]:
    name = document.node or "this node"
    yield 0, "head", f"{name}: ceilings in one direction, GB/s and Gb/s"
    if not document.cards:
        yield 0, "", "no RDMA devices found"
        return
    yield 10, "none", f"{_range(document.network.rate)}   {_bound(document.network)}", "network"
    yield from _unknown(document.network, 2)
    yield 0, "", ""
    yield 0, "head", "cards"
    yield from _cards(document.cards)
    if not document.pairs:
        yield 0, "", ""
        yield 0, "", "no GPUs found"
    addresses = sorted({pair.gpu for pair in document.pairs})
    for pairs in _alike(document.pairs):
        yield 0, "", ""
        yield from _pairs(pairs, addresses)
    if document.remarks:
        yield 0, "", ""
    for words in document.remarks:
        yield 2, "conclusion", words, "- "
    if document.measured:
        yield 0, "", ""
        yield from _measured(document.measured)


def _cards(cards: Iterable[CardEstimate]) -> Iterator[Row]:
    """Cards that differ only in their names share a line."""
    groups: dict[str, list[str]] = {}
    for card in cards:
        words = f"{_range(card.ceiling.rate)}   {_bound(card.ceiling)}"
        groups.setdefault(words, []).append(" ".join(card.devices))
    for words, names in groups.items():
        if len(names) == 1:
            yield 2, "", f"{names[0]}   {words}"
        else:
            yield 2, "", f"{', '.join(names)}: {len(names)} cards, each"
            yield 4, "", words


def _alike(pairs: Iterable[PairEstimate]) -> list[list[PairEstimate]]:
    """Pairs grouped if they differ only in their names, the fastest first, those that carry nothing last."""
    groups: dict[tuple[object, ...], list[PairEstimate]] = {}
    for pair in pairs:
        looks = tuple(
            (path.path, tuple((limit.name, limit.description, _range(limit.rate)) for limit in path.limits))
            for path in pair.paths
        )
        groups.setdefault((pair.common_point, pair.refusal, pair.unusable, looks), []).append(pair)

    def order(group: list[PairEstimate]) -> tuple[bool, int, float]:
        rate = group[0].paths[0].rate
        dead = rate is not None and not rate.high_gb_per_s
        return dead, list(COMMON_POINTS).index(group[0].common_point), -(rate.high_gb_per_s if rate else 0.0)

    return sorted(groups.values(), key=order)


def _pairs(pairs: list[PairEstimate], addresses: Sequence[str]) -> Iterator[Row]:
    """Pairs with the same ceilings. `addresses` of the node's GPUs are in the order of their numbers."""
    first = pairs[0]
    devices: dict[str, list[str]] = {}
    for pair in pairs[:PAIRS_SHOWN]:
        devices.setdefault(pair.gpu, []).append(pair.device)
    names = "; ".join(
        f"{with_slots(gpu, addresses)} with {', '.join(those)}" for gpu, those in devices.items()
    )
    more = f" and {len(pairs) - PAIRS_SHOWN} more" if len(pairs) > PAIRS_SHOWN else ""
    count = "1 pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
    yield 0, "head", f"{count} {COMMON_POINTS[first.common_point]}: {names}{more}"
    if first.unusable:
        yield 2, "conclusion", f"no program can use this GPU now [{first.unusable}]; by the links alone:"
    alone = len(pairs) == 1
    for index, path in enumerate(first.paths):
        late = f", {path.latency.low_us:g} to {path.latency.high_us:g} us" if path.latency else ""
        refused = f"  [not for this GPU: {first.refusal}]" if path.path == "direct" and first.refusal else ""
        yield 14, "none", f"{_range(path.rate)}{late}   {_bound(path)}{refused}", f"  {path.path}"
        if index == 0:
            for limit in path.limits:
                style = "tightest" if limit == path.tightest else "quiet"
                yield _limit(limit, style, alone=alone)
        yield from _unknown(path, 6)


def _limit(limit: Limit, style: str, *, alone: bool) -> Row:
    shared = f"; shared with {', '.join(limit.shared_with)}" if alone and limit.shared_with else ""
    rate = f"{limit.rate.low_gb_per_s:.1f} to {limit.rate.high_gb_per_s:.1f}"
    label = f"      {limit.name:<13} {rate:>15}   "
    return len(label), style, f"{limit.description}{shared}", label


def _unknown(path: Chain, indent: int) -> Iterator[Row]:
    if path.unknown:
        yield indent, "quiet", f"? not known: {', '.join(path.unknown)}"


def _bound(path: Chain) -> str:
    """Which limit sets the upper bound, and which the lower one if that is another."""
    if path.tightest is None:
        return "no limit is known"
    text = f"bound by {path.tightest.name}: {path.tightest.description}"
    worst = min(path.limits, key=lambda limit: limit.rate.low_gb_per_s)
    if path.unknown or worst.rate.low_gb_per_s >= path.tightest.rate.low_gb_per_s:
        return text
    return f"{text}; at worst by {worst.name}"


def _range(rate: Interval | None) -> str:
    if rate is None:
        return "unknown"
    if not rate.high_gb_per_s:
        return "nothing"
    if not rate.low_gb_per_s:
        return f"at most {rate.high_gb_per_s:.1f} GB/s ({rate.high_gbit_per_s:.0f} Gb/s)"
    bits = f"{rate.low_gbit_per_s:.0f} to {rate.high_gbit_per_s:.0f} Gb/s"
    return f"{rate.low_gb_per_s:.1f} to {rate.high_gb_per_s:.1f} GB/s ({bits})"


def _measured(readings: Iterable[MeasuredRate]) -> Iterator[Row]:
    for index, reading in enumerate(readings):
        if index:
            yield 0, "", ""
        rate = "no rate"
        if reading.gb_per_s is not None and reading.gbit_per_s is not None:
            rate = f"{reading.gb_per_s:.2f} GB/s ({reading.gbit_per_s:.1f} Gb/s)"
        yield 0, "head", f"measured: {reading.what}: {rate}"
        if reading.ceiling is not None:
            yield 2, "", f"ceiling {_range(reading.ceiling)}"
        for words in reading.sentences:
            yield 4, "none", words, "  - "
