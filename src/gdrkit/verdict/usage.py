"""Raises the state of paths that are in use to active."""

from __future__ import annotations

from msgspec.structs import replace

from gdrkit.evidence import Confidence
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.rdma import Pair, nic_address
from gdrkit.facts.unused_nics import UnusedNic
from gdrkit.facts.usage import dmabuf_importers, peermem_regions
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import ConsumerPath, Path
from gdrkit.verdict.path_state import PathState, State

MAY_BE_ACTIVE = (State.READY, State.UNKNOWN)
"""A path that is blocked or impossible and yet in use is used by other means, or by a module that is gone
from disk. Its state stays: it applies to the next program or the next boot."""


def seen_in_use(node: Node, pair: Pair | None, judgements: tuple[PathState, ...]) -> tuple[PathState, ...]:
    """The states of a pair, with those of paths that it uses now raised to active.

    Their confidence is likely: the evidence names at most the NIC, never the GPU, and for peermem neither.
    Nor does it name the program: one whose own settings or version are not known stays unknown. So does a
    path of which something about this GPU is open, where another one may be what uses the NIC.
    """
    used = [path for path, uses in (("peermem", _peermem), ("dmabuf", _dmabuf)) if uses(node, pair)]
    return tuple(
        replace(judgement, state=State.ACTIVE, missing=(), confidence=Confidence.LIKELY)
        if judgement.path in used
        and judgement.state in MAY_BE_ACTIVE
        and not _is_about_program(judgement)
        and not (_is_about_gpu(judgement) and len(if_missing((), gpus, node)) > 1)
        else judgement
        for judgement in judgements
    )


def _is_about_program(judgement: PathState) -> bool:
    """Whether something is open that the program alone decides."""
    own = ConsumerPath(judgement.consumer, Path(judgement.path))
    return any(own in result.takes for result in judgement.open)


def _is_about_gpu(judgement: PathState) -> bool:
    """Whether something is open that holds for one GPU, or for it and one NIC."""
    return any(isinstance(result.subject, Pair | PciGpu | UnusedNic) for result in judgement.open)


def _peermem(node: Node, pair: Pair | None) -> bool:
    return if_missing(False, lambda: peermem_regions(node) > 0)


def _dmabuf(node: Node, pair: Pair | None) -> bool:
    return if_missing(
        False, lambda: pair is not None and nic_address(node, pair.device) in dmabuf_importers(node)
    )
