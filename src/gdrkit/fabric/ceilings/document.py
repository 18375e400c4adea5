"""A node's ceilings as a document: `gdr estimate --json`, schema gdrkit.estimate/1.

Uses the types that the ceilings are computed in; numbers are rounded last."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from gdrkit.fabric.ceilings import paths
from gdrkit.fabric.ceilings.chain import Chain, Limit
from gdrkit.fabric.ceilings.hops import hop_latency
from gdrkit.fabric.ceilings.measured_rate import MeasuredRate
from gdrkit.fabric.ceilings.node_links import Attachment, CommonPoint, NodeLinks, PairLinks
from gdrkit.fabric.ceilings.remarks import remarks

DIGITS, DIGITS_OF_SHARE = 3, 4


class CardEstimate(Struct, frozen=True, kw_only=True):
    """The joint ceiling of all RDMA devices of one card."""

    devices: tuple[str, ...]
    ceiling: Chain


class PairEstimate(Struct, frozen=True, kw_only=True):
    """The paths between a GPU and an RDMA device that the hardware has."""

    gpu: str  # PCI address
    device: str  # RDMA device
    common_point: CommonPoint
    paths: tuple[Chain, ...]
    refusal: str = ""  # why `direct` is not a path of this GPU but what its links carry: a finding code
    unusable: str = ""  # why no path of this GPU can be used, and all are what links carry: a finding code


class EstimateDocument(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.estimate/1"):
    """The output of `gdr estimate`. `network` is all cards of the node together."""

    node: str  # host name
    source: str  # live, tree, bundle, ...
    network: Chain
    cards: tuple[CardEstimate, ...]
    pairs: tuple[PairEstimate, ...]
    remarks: tuple[str, ...]
    measured: tuple[MeasuredRate, ...]


def document(
    machine: NodeLinks, *, node: str = "", source: str = "", readings: Iterable[MeasuredRate] = ()
) -> EstimateDocument:
    """All ceilings of a node, and the measured rates compared with them."""
    return EstimateDocument(
        node=node,
        source=source,
        network=_chain(paths.node_total(machine)),
        cards=tuple(
            CardEstimate(
                devices=tuple(function.name for function in functions),
                ceiling=_chain(paths.card_chain(functions)),
            )
            for functions in machine.cards.values()
        ),
        pairs=tuple(_pair(machine, pair) for pair in machine.pairs),
        remarks=remarks(machine),
        measured=tuple(_reading(reading) for reading in readings),
    )


def _pair(machine: NodeLinks, pair: PairLinks) -> PairEstimate:
    return PairEstimate(
        gpu=pair.gpu.address,
        device=pair.function.name,
        common_point=pair.common_point,
        paths=tuple(
            replace(
                _chain(paths.chain(machine, pair, path)),
                latency=hop_latency(path, in_place=pair.gpu.attachment is Attachment.INTEGRATED),
            )
            for path in paths.possible(pair)
        ),
        refusal=pair.gpu.refusal,
        unusable=pair.gpu.unusable,
    )


# -- rounding --------------------------------------------------------------------------------------


def _chain(chain: Chain) -> Chain:
    return replace(
        chain,
        rate=chain.rate and chain.rate.rounded(DIGITS),
        tightest=chain.tightest and _limit(chain.tightest),
        limits=tuple(map(_limit, chain.limits)),
    )


def _limit(limit: Limit) -> Limit:
    return replace(limit, rate=limit.rate.rounded(DIGITS))


def _reading(reading: MeasuredRate) -> MeasuredRate:
    return replace(
        reading,
        gb_per_s=_rounded(reading.gb_per_s, DIGITS),
        gbit_per_s=_rounded(reading.gbit_per_s, DIGITS),
        ceiling=reading.ceiling and reading.ceiling.rounded(DIGITS),
        tightest=reading.tightest and _limit(reading.tightest),
        share=_rounded(reading.share, DIGITS_OF_SHARE),
    )


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)
