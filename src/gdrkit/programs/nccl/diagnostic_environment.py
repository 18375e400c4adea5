"""What the comparison of NCCL's variables between ranks shows.

Source: NCCL src/ras/diagnostics_env.cc: the environment of each process, not nccl.conf. For each variable
that differs there is one line for every value, with the ranks that have it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.plural import plural
from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.consumer import NCCL
from gdrkit.programs.nccl.diagnostic_records import RANKS, RankSet, rank_set
from gdrkit.programs.nccl.diagnostic_statements import CheckLine, Effect, Statement
from gdrkit.programs.nccl.log import COMPARED
from gdrkit.programs.nccl.settings import selects
from gdrkit.programs.setting_codes import codes_of

CHECK = "NCCL environment"
UNSET = "(unset)"
HCA = "NCCL_IB_HCA"

OF_EACH_HOST = (
    "NCCL_HOSTID",
    "NCCL_SOCKET_IFNAME",
    "NCCL_DEBUG_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TOPO_DUMP_FILE",
)
"""Variables whose values may differ between hosts, by their meaning: NCCL's guide, Environment Variables."""

BLOCKING = ("gdr-level-too-low", "ib-disabled-by-env")
"""Codes of settings that close every direct path of a rank; dma-buf off leaves nvidia-peermem."""

_MISMATCH = regex(r"mismatch across (?P<ranks>\d{1,7}) ranks for (?P<name>\w{1,80})")
_VALUE = regex(rf"(?P<name>NCCL_\w{{1,80}})=(?P<value>.{{0,300}}?) on rank\(s\) (?P<ranks>{RANKS})")


class DifferingValue(Struct, frozen=True):
    """One value of a variable, and the ranks that have it."""

    value: str
    ranks: RankSet
    line: int


def differing(lines: list[CheckLine]) -> dict[str, list[DifferingValue]]:
    """The values of each variable that differs, in the order of the report."""
    found: dict[str, list[DifferingValue]] = {}
    totals: dict[str, int] = {}
    for line in lines:
        text = line.record.text
        if line.record.check != CHECK:
            continue
        if mismatch := _MISMATCH.match(text):
            totals.setdefault(mismatch["name"], int(mismatch["ranks"]))
        elif (value := _VALUE.match(text)) and (ranks := rank_set(value["ranks"])):
            found.setdefault(value["name"], []).append(DifferingValue(value["value"], ranks, line.line))
    return {name: _completed(values, totals.get(name, 0)) for name, values in found.items()}


MOST_RANKS = 1 << 17


def _completed(values: list[DifferingValue], total: int) -> list[DifferingValue]:
    """Values with the ranks that NCCL leaves out of one set: those that no other set has."""
    cut = [one for one in values if not one.ranks.whole]
    if len(cut) != 1 or sum(one.ranks.count for one in values) != total or total > MOST_RANKS:
        return values
    others = {rank for one in values if one is not cut[0] for rank in one.ranks.shown}
    left = tuple(rank for rank in range(total) if rank not in others)
    whole = DifferingValue(cut[0].value, RankSet(left, len(left)), cut[0].line)
    return [whole if one is cut[0] else one for one in values]


def environment(lines: list[CheckLine]) -> Iterator[Statement]:
    """Statements about variables that differ, and about what their values bring about."""
    for name, values in differing(lines).items():
        shown = [f"{_value(one)} on {one.ranks}" for one in values]
        given = [one for one in values if one.value != UNSET]
        effects = [effect for one in given for effect in _effects(name, one)]
        decides = bool(name in COMPARED or effects)
        yield Statement(
            effect=Effect.CAUSE if decides else Effect.NOTE, check=CHECK, line=values[0].line,
            codes=("env-differs-between-ranks",) if decides else (), text=f"{name} is {', '.join(shown)}",
            todo="" if name in OF_EACH_HOST else _todo(name, values),
        )  # fmt: skip
        yield from effects
        if name == HCA:
            yield from _fewer_devices(values)
    for line in lines:
        if line.record.check == CHECK and "comparison may be partial" in line.record.text:
            words = "more than 16 KiB of NCCL variables on some ranks: not all were compared"
            yield Statement(effect=Effect.OPEN, check=CHECK, text=words, line=line.line)


def _todo(name: str, values: list[DifferingValue]) -> str:
    """One step with those of `_effects` and `_fewer_devices`: no value that closes a path is to spread."""
    closing = [one for one in values if one.value != UNSET and codes_of((NCCL,), name, one.value)]
    steps = [f"unset {name} on {one.ranks}" for one in closing]
    if name == HCA:
        steps = list(dict.fromkeys(one.todo for one in _fewer_devices(values)))
    return "; ".join(steps) or f"give all ranks the same {name}"


def _value(one: DifferingValue) -> str:
    return "unset" if one.value == UNSET else one.value or '""'


EFFECTS = {
    "dmabuf-disabled-by-env": "no dma-buf, so only nvidia-peermem can make a path direct",
    "gdr-read-off": "sending goes through host memory",
    "gdr-level-ignored": "not a level, so NCCL ignores it",
}


def _effects(name: str, one: DifferingValue) -> Iterator[Statement]:
    """What a value brings about on its ranks, whatever the machine."""
    for code in codes_of((NCCL,), name, one.value):
        blocks = code in BLOCKING
        left = "no direct path" if blocks else EFFECTS.get(code, "a direct path is closed")
        yield Statement(
            effect=Effect.CAUSE, check=CHECK, line=one.line, codes=(code,), ranks=one.ranks.shown,
            text=f"{name}={one.value} on {one.ranks}: {left}", blocks=blocks, rank_count=one.ranks.count,
            todo=f"unset {name} on {one.ranks}",
        )  # fmt: skip


def _fewer_devices(values: list[DifferingValue]) -> Iterator[Statement]:
    """A list of NICs that selects fewer of them than another rank's list names."""
    known = dict.fromkeys(
        entry.partition(":")[0]
        for one in values
        if one.value.startswith("=")
        for entry in one.value.removeprefix("=").split(",")
        if entry.partition(":")[0]
    )
    for one in values:
        chosen = [name for name in known if selects(one.value, name)]
        if one.value in (UNSET, "") or not chosen or len(chosen) >= len(known):
            continue
        prefix = "" if one.value.startswith(("=", "^")) else " (a prefix: = in front matches whole names)"
        yield Statement(
            effect=Effect.POSSIBLE, check=CHECK, line=one.line, codes=("hca-not-selected",),
            ranks=one.ranks.shown, todo=f"list all NICs of the host in {HCA} on {one.ranks}",
            text=f"{HCA}={one.value} on {one.ranks} selects {len(chosen)} of {plural(len(known), 'NIC')} "
            f"that other ranks use{prefix}: the ranks of a host share {', '.join(chosen[:4])}",
        )  # fmt: skip
