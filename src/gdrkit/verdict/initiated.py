"""Whether a GPU kernel of a program can start transfers itself, and who rings the NIC's doorbell for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from gdrkit.rules.capabilities import INITIATED, Path
from gdrkit.verdict.path_state import GOOD, PathState, State

InitiatedBy = Literal["gpu", "cpu", "none", "unknown"]
WORST_FIRST: tuple[InitiatedBy, ...] = ("none", "unknown", "cpu", "gpu")


class Initiated(Struct, frozen=True):
    """Who starts the transfers of a program's GPU kernels, at the worst GPU that counts."""

    by: InitiatedBy
    codes: tuple[str, ...]  # why it is not the GPU, or what is not known


def initiated(judgements: Iterable[Iterable[PathState]], consumer: str) -> Initiated | None:
    """The worst of several pairs; None for a program that does not do it."""
    here = (_at_one(tuple(some), consumer) for some in judgements)
    return min((one for one in here if one), key=lambda one: WORST_FIRST.index(one.by), default=None)


def _at_one(judgements: tuple[PathState, ...], consumer: str) -> Initiated | None:
    found = {one.path: one for one in judgements if one.consumer == consumer and one.path in INITIATED}
    if not found:
        return None
    itself, assisted = found[Path.GPU_INITIATED], found[Path.CPU_ASSISTED]
    if itself.state in GOOD:
        return Initiated("gpu", ())
    if itself.state is State.UNKNOWN:
        return Initiated("unknown", _unknown(itself))
    if assisted.state in GOOD:
        return Initiated("cpu", itself.codes)
    if assisted.state is State.UNKNOWN:
        return Initiated("unknown", _unknown(assisted))
    return Initiated("none", assisted.codes)


def _unknown(one: PathState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.rule.code for result in one.open))
