"""NCCL's communicators, as its RAS tells them: NCCL src/ras/client_support.cc, JSON since 2.28.7."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.jobs.running.document import PsCommunicator
from gdrkit.jobs.running.record import Number, RasAnswer


class _Rank(Struct, frozen=True):
    host: str
    pid: Number


class _Communicator(Struct, frozen=True):
    size: Number
    ranks: list[_Rank] = []
    missing_ranks: list[Any] = []


class _Status(Struct, frozen=True):
    nccl_version: str
    communicators: list[_Communicator] = []


def communicators(answers: Iterable[RasAnswer], pids: Iterable[int]) -> tuple[PsCommunicator, ...]:
    """The communicators in an answer, with those of the given processes that belong to each. Raises
    FormatError for one that is not in JSON, or is cut off.

    A process is named by its pid in its own namespace: one of a container is not found by it."""
    here = frozenset(pids)
    found = []
    for answer in answers:
        if answer.format != "json" or answer.truncated:
            raise FormatError(
                "too long to read whole" if answer.truncated else "only as text, before 2.28.7"
            )
        status = json_text.decode(answer.text.encode(), _Status)
        found += [
            PsCommunicator(
                version=status.nccl_version, ranks=one.size, missing=len(one.missing_ranks),
                hosts=len({rank.host for rank in one.ranks}),
                processes=tuple(sorted({rank.pid for rank in one.ranks} & here)),
            )
            for one in status.communicators
        ]  # fmt: skip
    return tuple(found)
