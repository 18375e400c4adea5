"""The document of `gdr fleet doctor --json`, schema gdrkit.fleet/1. A run is kept as this document, too.

`nodes` has one row for each node; every other section is computed from the rows. The text, CSV and JUnit are
made from the document.
"""

from __future__ import annotations

import enum
from typing import Literal

from msgspec import Struct

from gdrkit.rules.remedy_names import RemedyName


class Standing(enum.StrEnum):
    """What a node needs, the most urgent first."""

    BLOCKED = "blocked"
    UNREACHABLE = "unreachable"  # it gave no evidence
    UNREADABLE = "unreadable"  # its file is damaged or in no known format
    UNKNOWN = "unknown"  # evidence is missing
    NEXT_BOOT = "next-boot"  # ready now, blocked after the next boot
    WARNINGS = "warnings"  # works, with warnings
    IMPOSSIBLE = "impossible"
    READY = "ready"  # ready or active


READY_NOW = "ready now, blocked after the next boot"
"""What a node of standing NEXT_BOOT is, in words."""
WELL = (Standing.READY, Standing.IMPOSSIBLE)
"""Nothing is to be done."""
SILENT = (Standing.UNREACHABLE, Standing.UNREADABLE)
"""There is no evidence to judge."""
UNDECIDED = (Standing.UNKNOWN, *SILENT)
INTERRUPTED = "interrupted before it answered"
"""The summary of a node whose turn the end of the run cut off, not by its fault."""


class CabledPort(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a node whose few ports may be cabled to another one; None means not known."""

    device: str
    interface: str = ""
    name: str = ""  # of the physical port: p0; devices with the same one share its cable
    state: str = ""  # ACTIVE, DOWN, INIT
    rate_gbit_per_s: float = 0.0
    link: str = ""  # its PCIe link, as 32 GT/s x4
    link_gbit_per_s: float | None = None  # of that link, packet headers included
    full_link: str = ""  # what that link was built as, where it has less
    bus: str = ""  # ports with the same one share that link
    mtu: int | None = None
    gid: int | None = None  # index of the first GID of RoCE v2 with IPv4
    mac: str = ""
    addresses: tuple[str, ...] | None = None  # as 192.168.100.10/24
    neighbours: tuple[str, ...] | None = None  # MAC addresses that it has seen


class NodeSetting(Struct, frozen=True, kw_only=True):
    """A variable of NCCL's environment; without a value, why it is not set."""

    name: str
    value: str
    why: str


class NodeRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One node: what it needs, and what can be compared with other nodes."""

    name: str
    target: str  # for `gdr doctor`
    standing: Standing
    causes: tuple[str, ...] = ()  # codes, the first one first; then of missing evidence its sources
    rails: tuple[int, ...] = ()  # the GPUs that it concerns, by their order; empty for all
    summary: str = ""  # the verdict, or why there is none
    remedies: tuple[RemedyName, ...] = ()  # of the first plan, in order; without a plan those of its cause
    needs_reboot: bool = False  # whether the plan, or what is to be done by hand, includes a reboot
    by_hand: bool = False  # no plan of gdr fix does it
    to_find_out: tuple[str, ...] = ()  # commands
    advice: str = ""  # what its first cause says to do on this node; without evidence, what its error says
    traits: dict[str, str] = {}  # by name; without those that are not known
    ports: tuple[CabledPort, ...] = ()  # only of a machine such as a DGX Spark
    settings: tuple[NodeSetting, ...] = ()  # those of `gdr config nccl-env`, where there are ports
    calls_itself: str = ""  # its own name, if it was asked by another one or others have it too
    jobs: dict[str, str] = {}  # the path of each job that ran there, if it is known: direct, staged, socket


def causes_of(row: NodeRow) -> tuple[str, ...]:
    """What is wrong with a node, that of its verdict first: codes that block it or are warnings; of missing
    evidence its sources.

    What fails or warns beside the first cause is in its traits, of bounded length, each code once with how
    often it was found: fleet/traits.py."""
    words = [row.traits.get(name, "") for name in ("failed", "warnings")]
    found = (code.rpartition(" x ")[2] for each in words for code in each.split(", "))
    found = (code for code in found if code not in ("", "none"))
    return tuple(dict.fromkeys((*row.causes, *found)))


class Group(Struct, frozen=True, kw_only=True):
    """Nodes that share a verdict, its causes, and what to do about them."""

    number: int  # from 1
    standing: Standing
    causes: tuple[str, ...]
    rails: tuple[int, ...]
    summary: str  # of its first node
    advice: str
    nodes: str  # hostlist
    count: int


class Fix(Struct, frozen=True, kw_only=True):
    """What would make nodes ready, and how many."""

    advice: str
    remedies: tuple[RemedyName, ...]  # empty where none is known
    needs_reboot: bool
    by_hand: bool = False  # no plan of gdr fix does it
    frees: int
    nodes: str  # hostlist


class TraitValue(Struct, frozen=True, kw_only=True):
    value: str
    count: int
    nodes: str  # hostlist


class Drift(Struct, frozen=True, kw_only=True):
    """A trait that nodes of one kind do not share; the most common value first."""

    trait: str
    kind: str  # of node
    values: tuple[TraitValue, ...]


class TraitMismatch(Struct, frozen=True, kw_only=True):
    """Something that must be the same on all nodes of a job, and is not."""

    trait: str
    shows_as: str  # the message or symptom
    versions: str  # of NCCL; empty for all
    values: tuple[TraitValue, ...]
    kind: str = ""  # of node


class PortPair(Struct, frozen=True, kw_only=True):
    """A port of one node and the one of the other that it reaches."""

    device: str
    other: str
    known_by: Literal["network", "neighbour", "shared", "cable"]
    """The only two ports in a network; seen by its MAC address; one of several in a network; another device
    of the same physical ports, without addresses."""


class Cabling(Struct, frozen=True, kw_only=True):
    """How two machines such as DGX Sparks are connected."""

    nodes: tuple[str, str]
    pairs: tuple[PortPair, ...]
    cables: tuple[tuple[str, str], ...]  # the physical ports at both ends
    gbit_per_s: float | None  # at most, in one direction; None if it is not known
    limited_by: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """A trait in which a node differs from its peers."""

    trait: str
    value: str
    peers: str  # what most peers have
    same: int  # nodes with this node's value, itself included
    of: int  # nodes of this kind whose value is known
    usual: int = 0  # of them, nodes that have what most peers have


class OddNode(Struct, frozen=True, kw_only=True):
    node: str
    standing: Standing
    differences: tuple[Difference, ...]  # the rarest first


class Learned(Struct, frozen=True, kw_only=True):
    """What most nodes of a kind have: `--expect` without a file."""

    kind: str
    count: int
    traits: dict[str, str]


class Change(Struct, frozen=True, kw_only=True):
    """Nodes whose standing, causes or versions changed since another run."""

    kind: Literal["worse", "better", "other", "new", "gone", "version"]
    before: str
    after: str
    nodes: str  # hostlist
    count: int


STARTED = "%Y-%m-%dT%H:%M:%SZ"
"""How a document writes a time in UTC: strftime(3)."""


class FleetReport(Struct, frozen=True, kw_only=True, tag_field="schema", tag="gdrkit.fleet/1"):
    """The complete result of `gdr fleet doctor`."""

    started: str  # UTC, as 2026-11-22T23:31:05Z
    seconds: float
    complete: bool  # false if it was interrupted
    counts: dict[Standing, int]
    groups: tuple[Group, ...]
    fixes: tuple[Fix, ...]  # those that free the most nodes first
    drift: tuple[Drift, ...]
    mismatches: tuple[TraitMismatch, ...]
    odd: tuple[OddNode, ...]  # the oddest first
    expected: tuple[Learned, ...]  # empty without --expect
    nodes: tuple[NodeRow, ...]
    since: str = ""  # when the run was made that `changes` compares with
    changes: tuple[Change, ...] = ()
    cabling: Cabling | None = None  # of two machines that have `ports`
    asked: tuple[str, ...] = ()  # the targets of the run, so that a later one finds those of the same
