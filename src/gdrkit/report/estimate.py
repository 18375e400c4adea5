"""A node's ceilings as a document: `gdr estimate --json`, schema gdrkit.estimate/1. PURE."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gdrkit.estimate import paths
from gdrkit.estimate.chain import Chain, Limit
from gdrkit.estimate.interval import Interval
from gdrkit.estimate.machine import Machine, Route
from gdrkit.estimate.reading import Reading
from gdrkit.estimate.remarks import remarks

SCHEMA = "gdrkit.estimate/1"
DIGITS = 3


class RateSection(Struct, kw_only=True):
    """Nothing goes faster than high; tuned runs reach low. One direction."""

    low_gb_per_s: float
    high_gb_per_s: float
    low_gbit_per_s: float
    high_gbit_per_s: float


class LimitSection(Struct, kw_only=True):
    name: str  # gpu-link, gpu-c2c, switch-uplink, root-complex, nic-link, port, host-copy, tcp, ...
    subject: str  # a PCI address, an RDMA device, or what is counted together
    said: str
    rate: RateSection
    shared_with: list[str]  # who else needs it


class PathSection(Struct, kw_only=True):
    path: str  # direct (dma-buf and peermem alike), host-mapped, staged, socket
    rate: RateSection | None  # null: nothing of it is known
    tightest: LimitSection | None
    limits: list[LimitSection]  # in the order of the way
    unknown: list[str]  # what on the way nobody could read; then low is 0


class CardSection(Struct, kw_only=True):
    devices: list[str]  # the RDMA devices of one card
    ceiling: PathSection


class EstimatePair(Struct, kw_only=True):
    gpu: str  # PCI address
    device: str  # RDMA device
    meeting: str  # switch, root-complex, sockets, unknown
    paths: list[PathSection]  # only those that the hardware has


class ReadingSection(Struct, kw_only=True):
    what: str
    gb_per_s: float | None
    gbit_per_s: float | None
    ceiling: RateSection | None
    tightest: LimitSection | None
    share: float | None  # of the ceiling's upper bound
    sentences: list[str]


class EstimateDocument(Struct, kw_only=True):
    schema: str = SCHEMA
    node: str  # host name
    source: str  # live, tree, bundle, ...
    network: PathSection  # all cards of the node together
    cards: list[CardSection]
    pairs: list[EstimatePair]
    remarks: list[str]
    measured: list[ReadingSection]


def document(
    machine: Machine, *, node: str = "", source: str = "", readings: Iterable[Reading] = ()
) -> EstimateDocument:
    """All ceilings of a node, and what was measured beside them."""
    return EstimateDocument(
        node=node,
        source=source,
        network=_path(paths.node_total(machine)),
        cards=[
            CardSection(devices=[f.name for f in functions], ceiling=_path(paths.card_chain(functions)))
            for functions in machine.cards.values()
        ],
        pairs=[_pair(machine, route) for route in machine.routes],
        remarks=list(remarks(machine)),
        measured=[_reading(reading) for reading in readings],
    )


def _pair(machine: Machine, route: Route) -> EstimatePair:
    return EstimatePair(
        gpu=route.gpu.address,
        device=route.function.name,
        meeting=route.meeting.value,
        paths=[_path(paths.chain(machine, route, path)) for path in paths.possible(route)],
    )


def _path(chain: Chain) -> PathSection:
    return PathSection(
        path=chain.path,
        rate=_rate(chain.interval),
        tightest=_limit(chain.tightest) if chain.tightest else None,
        limits=[_limit(limit) for limit in chain.limits],
        unknown=list(chain.unknown),
    )


def _limit(limit: Limit) -> LimitSection:
    rate = _rate(limit.interval)
    assert rate is not None  # only of no interval there is none
    return LimitSection(
        name=limit.name,
        subject=limit.subject,
        said=limit.said,
        rate=rate,
        shared_with=list(limit.shared_with),
    )


def _rate(interval: Interval | None) -> RateSection | None:
    if interval is None:
        return None
    low, high = interval.low_gb_per_s, interval.high_gb_per_s
    return RateSection(
        low_gb_per_s=round(low, DIGITS),
        high_gb_per_s=round(high, DIGITS),
        low_gbit_per_s=round(low * 8, DIGITS),
        high_gbit_per_s=round(high * 8, DIGITS),
    )


def _reading(reading: Reading) -> ReadingSection:
    rate = reading.gb_per_s
    return ReadingSection(
        what=reading.what,
        gb_per_s=None if rate is None else round(rate, DIGITS),
        gbit_per_s=None if rate is None else round(rate * 8, DIGITS),
        ceiling=_rate(reading.ceiling),
        tightest=_limit(reading.tightest) if reading.tightest else None,
        share=None if reading.share is None else round(reading.share, 4),
        sentences=list(reading.sentences),
    )
