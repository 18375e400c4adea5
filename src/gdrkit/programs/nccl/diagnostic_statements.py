"""The results of reading NCCL's diagnostics: statements about ranks and, where lines show them, hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct

from gdrkit.formats.regex import regex
from gdrkit.programs.nccl.diagnostic_records import DiagnosticLine


class CheckLine(Struct, frozen=True):
    """A line of one check, where it is in the log, and the process that printed it."""

    record: DiagnosticLine
    line: int
    process: str


class Effect(StrEnum):
    """What a statement means for the direct path."""

    CAUSE = "cause"  # its code is shown for its ranks
    POSSIBLE = "possible"  # each of its codes is possible
    FAULT = "fault"  # something is wrong or differs, without a code of the direct path
    OPEN = "open"  # a check could not be carried out
    EXCLUDED = "excluded"  # its codes are not the cause
    NOTE = "note"  # seen, and without effect on the direct path


PROBLEMS = (Effect.CAUSE, Effect.POSSIBLE, Effect.FAULT)


class Statement(Struct, frozen=True, kw_only=True):
    """What one or several lines of a report show."""

    effect: Effect
    check: str
    text: str
    line: int
    codes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()  # those that lines name; NCCL prints at most eight of a set
    rank_count: int = 0  # of the set, if that is known to be larger
    host: str = ""  # of the ranks, if a line shows it
    todo: str = ""
    brief: str = ""  # the text in less than 60 characters, if it is long
    blocks: bool = False  # its ranks cannot use the direct path


class Bandwidth(Struct, frozen=True, kw_only=True):
    """A summary of ib_write_bw over all ranks, one direction of one pair of NICs each."""

    mode: str  # same-nic: NICs of the same name; cross-nic: the next one
    lowest_gbit_per_s: float
    median_gbit_per_s: float
    highest_gbit_per_s: float
    ranks: int
    line: int


class Diagnostics(Struct, frozen=True, kw_only=True):
    """What the reports of a log show."""

    active: bool  # NCCL_RUN_DIAGNOSTICS=1: p2p and net bw
    passive: bool  # NCCL_RUN_RAS_DIAGNOSTICS=1, or asked through the port of RAS
    ranks: int | None
    processes: int | None  # if asked through the port
    hosts: tuple[str, ...]  # that lines name
    host_count: int  # at least: a line may state the number of all
    gpus: str  # 8x NVIDIA H100 80GB HBM3
    tested: bool  # a line has a result; False: RAS is off, the report has only its header, or no check ran
    bandwidths: tuple[Bandwidth, ...]
    tested_memory: tuple[str, ...]  # host, cuda, cuda+dmabuf: what lines of failed pairs name
    statements: tuple[Statement, ...]
    direct_path: str  # why the report does not show whether it is used

    def of(self, *effects: Effect) -> tuple[Statement, ...]:
        return tuple(one for one in self.statements if one.effect in effects)


_RANK = regex(r"rank (?P<rank>\d{1,7}) \((?P<host>[^\s()]{1,255})\)")
_PAIR = regex(
    r"server_rank=(?P<server>\d{1,7}) server_host=(?P<server_host>\S{1,255}) .*?"
    r"client_rank=(?P<client>\d{1,7}) client_host=(?P<client_host>\S{1,255})"
)
_COUNT = regex(r"across (?P<count>\d{1,6}) hosts?$")
_NAMED = regex(r" on host (?P<host>[\w.-]{1,255}?)\.?(?:\s|$)")


class HostNames:
    """The hosts of ranks, as far as lines show them."""

    def __init__(
        self, lines: list[CheckLine], printing: tuple[str, ...], known: Mapping[tuple[str, int], str]
    ) -> None:
        self._by_rank = dict(known)
        self.printing = printing
        found = dict.fromkeys(printing)
        for line in lines:
            for host, rank in _hosts_of(line.record):
                found.setdefault(host)
                if rank is not None:
                    self._by_rank.setdefault((line.record.communicator, rank), host)
        found.update(dict.fromkeys(self._by_rank.values()))
        self.hosts = tuple(found)
        stated = [int(count["count"]) for line in lines if (count := _COUNT.search(line.record.text))]
        self.count = max((len(self.hosts), *stated))

    def of(self, communicator: str, rank: int) -> str:
        """The host of a rank of a communicator; "" if no line shows it."""
        return self._by_rank.get((communicator, rank), "")

    def other_host(self) -> str:
        """Of two hosts, the one that did not print the report; "" unless there are exactly two."""
        others = [host for host in self.hosts if host not in self.printing]
        return others[0] if len(self.hosts) == 2 and len(others) == 1 else ""


def _hosts_of(record: DiagnosticLine) -> Iterator[tuple[str, int | None]]:
    """The hosts that a line names, each with the rank if it names that too."""
    if record.check == "net bw":
        if pair := _PAIR.search(record.text):
            yield pair["server_host"], int(pair["server"])
            yield pair["client_host"], int(pair["client"])
        elif rank := _RANK.search(record.text):
            yield rank["host"], int(rank["rank"])
    elif "Xid" in record.check and (found := _NAMED.search(record.text)):
        yield found["host"], None
