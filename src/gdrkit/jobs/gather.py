"""Processes with their log records, and ranks with their legs, from counted lines."""

from __future__ import annotations

import functools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from gdrkit.facts.gpu_ids import is_consumer_name
from gdrkit.jobs.job import Leg, LegDirection, LogPosition, Rank
from gdrkit.jobs.line_counts import LogUnit, Tally, TallyEntry
from gdrkit.programs.nccl import log_records as nccl_records
from gdrkit.programs.nccl.log_records import via

R = TypeVar("R")
Where = Callable[[int], LogPosition]


class JobProcess:
    """The records of one process, for all its devices. The one named "" has text outside of NCCL's lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.records: dict[type, dict[nccl_records.NcclRecord, TallyEntry]] = defaultdict(dict)

    @property
    def host(self) -> str:
        return self.name.rpartition(":")[0]

    def all(self, kind: type[R]) -> dict[R, TallyEntry]:
        """All records of one kind, in the order of the log."""
        found: dict[R, TallyEntry] = self.records.get(kind, {})  # type: ignore[assignment]
        if len(found) < 2:
            return found
        return dict(sorted(found.items(), key=lambda item: item[1].position))

    def add(self, found: nccl_records.NcclRecord, entry: TallyEntry) -> None:
        known = self.records[type(found)].get(found)
        if known is None:
            known = self.records[type(found)][found] = TallyEntry(0, entry.position, entry.words)
        known.count += entry.count
        if entry.position < known.position:
            known.position, known.words = entry.position, entry.words

    def variable(self, name: str, *, resolved: bool | None = None) -> tuple[str, int] | None:
        """A variable's value and its position; what NCCL printed takes precedence over what was given."""
        found = [
            (not variable.resolved, entry.position, variable.value)
            for variable, entry in self.all(nccl_records.Variable).items()
            if variable.name == name and resolved in (None, variable.resolved)
        ]
        return (min(found)[2], min(found)[1]) if found else None


GLUED_KINDS = 2
"""The most kinds of lines of a false process: a line or two whose beginning was overwritten."""


class GatheredRanks:
    """Processes by name, and the units that are ranks."""

    def __init__(self, tally: Tally, where: Where) -> None:
        self.where, self.tally = where, tally
        names = _settled(_weights(tally))
        self.units = [LogUnit(names[unit.process], unit.device) for unit in tally.units]
        self.processes: dict[str, JobProcess] = {}
        for unit in self.units:
            if unit.process not in self.processes:
                self.processes[unit.process] = JobProcess(unit.process)
        self.communicators: dict[LogUnit, dict[nccl_records.Communicator, int]] = defaultdict(dict)
        for (number, found), entry in tally.entries.items():
            unit = self.units[number]
            self.processes[unit.process].add(found, entry)
            if isinstance(found, nccl_records.Communicator):
                here = self.communicators[unit]
                here[found] = min(entry.position, here.get(found, entry.position))
        self.cut_lines = 0
        self.around = self.processes.get("") or JobProcess("")
        for process in self.processes.values():
            if ":" not in process.name:  # lines without a frame: their messages belong to any of the ranks
                for kind, records in self.around.records.items():
                    process.records.setdefault(kind, records)
        self.highest: dict[LogUnit, int] = {}  # the highest rank that channels of a unit name, at least
        self._first_legs: dict[str, int] = {}
        for (number, _), first in tally.firsts.items():
            name = self.units[number].process
            self._first_legs[name] = min(first.position, self._first_legs.get(name, first.position))
        self._named = {name: device_names(process) for name, process in self.processes.items()}
        self._of_host: dict[str, dict[int, str]] = {}
        for name in sorted(self.processes):
            if self._named[name]:
                self._of_host.setdefault(self.processes[name].host, self._named[name])
        versions = (one for process in self.processes.values() for one in process.all(nccl_records.Version))
        self.is_rccl = any(one.library == "RCCL" for one in versions)  # AMD's library printed the log

    def first_position(self, name: str) -> int:
        """The position of a process's first record; beyond all positions if there is none."""
        records = self.processes[name].records.values()
        positions = [entry.position for kind in records for entry in kind.values()]
        return min((*positions, self._first_legs.get(name, sys.maxsize)))

    def ranks(self) -> list[Rank]:
        """Every unit that has channels or is in a communicator, with its legs, by first appearance."""
        shapes: dict[LogUnit, dict[bytes, tuple[int, int]]] = defaultdict(dict)
        owns: dict[LogUnit, dict[int, int]] = defaultdict(dict)
        gpus: dict[LogUnit, str] = {}
        for (number, tail), first in self.tally.firsts.items():
            unit = self.units[number]
            channels, position = self.tally.legs[number][tail], first.position
            before = shapes[unit].get(tail, (0, position))
            shapes[unit][tail] = before[0] | channels, min(position, before[1])
            owns[unit][first.rank] = min(position, owns[unit].get(first.rank, position))
            gpus[unit] = gpus.get(unit) or first.gpu
            self.highest[unit] = max(first.rank, first.peer or 0, self.highest.get(unit, 0))
        units = dict.fromkeys((*self.communicators, *shapes, *self._with_network(shapes)))
        framed = any(":" in unit.process for unit in units)
        cut = [
            unit
            for unit in units
            if framed and ":" not in unit.process
            if len(shapes[unit]) + len(self.communicators[unit]) <= GLUED_KINDS
        ]
        self.cut_lines = len(cut)
        for unit in cut:  # rear halves of lines: all others have a prefix with host and process
            del units[unit]
        return [self._rank(unit, shapes[unit], owns[unit], gpus.get(unit, "")) for unit in units]

    def _with_network(self, shapes: Iterable[LogUnit]) -> Iterator[LogUnit]:
        """The units with a line about their network, of processes without a channel or communicator."""
        known = {unit.process for unit in (*self.communicators, *shapes)}
        if any(":" not in name for name in known):
            known.add("")
        for number, found in self.tally.entries:
            unit = self.units[number]
            if unit.process not in known and _is_about_network(found):
                yield unit

    def _rank(
        self, unit: LogUnit, shapes: dict[bytes, tuple[int, int]], owns: dict[int, int], gpu: str
    ) -> Rank:
        largest = max(
            self.communicators.get(unit, {}), key=lambda one: (one.ranks, one.identifier), default=None
        )
        number = largest.rank if largest else next(iter(owns)) if len(owns) == 1 else None
        if largest and largest.bus_id:
            gpu = largest.bus_id
        names = self.names(unit.process)
        legs = sorted(
            (
                made
                for tail, (channels, position) in shapes.items()
                if (made := self._leg(tail, channels, position, names)) is not None
            ),
            key=_order,
        )
        return Rank(
            rank=number, process=unit.process, cuda_device=unit.device, gpu=gpu, legs=_joined(legs),
            communicator=largest.identifier if largest else "",
        )  # fmt: skip

    def _leg(self, tail: bytes, channels: int, position: int, names: dict[int, str]) -> Leg | None:
        text = tail.decode("utf-8", "replace")
        bracket, _, carried = text.rpartition("] via ")
        found = via(carried or text)
        if found is None:
            return None
        numbers = tuple(i for i in range(channels.bit_length()) if channels >> i & 1)
        if found.carried not in nccl_records.OVER_NETWORK:
            return Leg(
                direction=LegDirection.BOTH, carried=found.carried, channels=numbers,
                line=self.where(position), how=found.how,
            )  # fmt: skip
        return Leg(
            direction=LegDirection(bracket), carried=found.carried, channels=numbers,
            line=self.where(position), network=found.network, index=found.index,
            device=names.get(found.index, ""),
            collnet=found.kind == "collnet", forced_pcie=found.pci, pxn_proxy=found.proxy,
            shared_buffers=found.shared, how="GDRDMA" if found.gdr else "",
        )  # fmt: skip

    @functools.cached_property
    def _is_of_one_host(self) -> bool:
        return len({one.host for one in self.processes.values()} - {""}) < 2

    def products(self, process: JobProcess) -> frozenset[str]:
        """The names of a process's GPUs; in a log of one host those that any line names. Of several hosts,
        a list of GeForce cards alone is taken for all: it excludes nothing, and puts one cause first."""
        if named := process.all(nccl_records.GpuName):
            return frozenset(one.product for one in named)
        around = frozenset(one.product for one in self.around.all(nccl_records.GpuName))
        return around if self._is_of_one_host or all(map(is_consumer_name, around)) else frozenset()

    def names(self, name: str) -> dict[int, str]:
        """The names of network devices by index, from the process itself or another one on its host."""
        return self._named[name] or self._of_host.get(self.processes[name].host, {})


def _order(leg: Leg) -> tuple[str, str, int, int, LogPosition]:
    return leg.direction, leg.carried, leg.index or 0, leg.pxn_proxy or 0, leg.line


ABOUT_NETWORK = (
    nccl_records.Network, nccl_records.NetDevice, nccl_records.NoIbDevice, nccl_records.VerbsUnavailable,
    nccl_records.PairLine, nccl_records.Clique, nccl_records.SocketsUp, nccl_records.OfiNic,
)  # fmt: skip
"""Records that each rank makes while it chooses its network."""


def _is_about_network(found: nccl_records.NcclRecord) -> bool:
    """Whether a rank makes a record while it chooses its network."""
    if isinstance(found, nccl_records.Variable):
        return found.resolved and found.name == "NCCL_IB_DISABLE"
    if isinstance(found, nccl_records.Remark):
        return found.form == "ofi-without-gdr"
    return isinstance(found, ABOUT_NETWORK)


def device_names(process: JobProcess) -> dict[int, str]:
    """The names of network devices of one process, by the index in its channel lines.

    From 2.24 on fused devices follow the ports: `Made virtual device` names both kinds."""
    names: dict[int, str] = {}
    for group in process.all(nccl_records.OfiNic):
        names[group.group] = "+".join(filter(None, (names.get(group.group), group.address)))
    for using in process.all(nccl_records.Hcas):
        names |= {hca.index: hca.name for hca in using.devices}
    for device in process.all(nccl_records.NetDevice):
        if device.network not in nccl_records.TCP and device.index != nccl_records.NO_INDEX:
            names.setdefault(device.index, device.device)
    return names | {fused.index: fused.name for fused in process.all(nccl_records.FusedDevice)}


def _weights(tally: Tally) -> dict[str, int]:
    """The number of kinds of lines of each process."""
    weights = dict.fromkeys((unit.process for unit in tally.units), 0)
    units = list(tally.units)
    for number, _ in (*tally.entries, *tally.firsts):
        weights[units[number].process] += 1
    return weights


def _settled(weights: dict[str, int]) -> dict[str, str]:
    """The right name of each process. A name with only a line or two that ends like another one, or the
    other way round, is that other process: lines were written into each other."""
    by_pid: dict[str, list[str]] = defaultdict(list)
    for name in weights:
        if weights[name] > GLUED_KINDS and name.partition(":")[0]:
            by_pid[name.rpartition(":")[2]].append(name)
    found = {name: name for name in weights}
    for name, weight in weights.items():
        if weight <= GLUED_KINDS and ":" in name:
            known = by_pid.get(name.rpartition(":")[2], [])
            like = [other for other in known if name.endswith(other) or other.endswith(name)]
            found[name] = like[0] if len(like) == 1 else name
    return found


def _joined(legs: list[Leg]) -> tuple[Leg, ...]:
    """Legs with those merged that differ only in how the log spells them."""
    found: dict[tuple[object, ...], Leg] = {}
    for leg in legs:
        key = (
            leg.direction, leg.carried, leg.network, leg.index, leg.collnet, leg.forced_pcie,
            leg.pxn_proxy, leg.shared_buffers, leg.how,
        )  # fmt: skip
        other = found.get(key)
        if other is not None:
            channels = tuple(sorted({*other.channels, *leg.channels}))
            leg = replace(other, channels=channels, line=min(other.line, leg.line))
        found[key] = leg
    return tuple(found.values())
