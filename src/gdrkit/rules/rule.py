"""What a rule is, what it may answer, and which cells of the matrix it speaks for.

A code is declared once, by the decorator on the function that decides it, with everything that is a property
of the code. Ladder, schema, help, docs pages, plans and questions derive from here; a code's page is the
function's docstring.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from gdrkit.consumers.consumer import Capability, Direction, Need
from gdrkit.evidence import Missing
from gdrkit.evidence.ranked import Ranked
from gdrkit.node import Fact, Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.stage import LoadPosition

S = TypeVar("S", bound=Hashable)

DIRECT = ("dmabuf", "peermem")
FALLBACKS = ("host-mapped", "staged", "socket")
PATHS = (*DIRECT, *FALLBACKS)
GPU, WIRE, DMABUF, ADDRESS = Capability.GPU, Capability.WIRE, Capability.DMABUF, Capability.ADDRESS
REGISTRATION = (DMABUF, ADDRESS)


class Layer(Ranked):
    """Where in the stack a problem lies, from the ground up."""

    HARDWARE = "hardware"
    FIRMWARE = "firmware"
    KERNEL = "kernel"
    DRIVER = "driver"
    RDMA = "rdma"
    PCIE = "pcie"
    LIBRARY = "library"
    APPLICATION = "application"


class Status(enum.StrEnum):
    """What a ruling means on a node. Derived there: the same stub may fail a node or not."""

    FAILED = "failed"
    WARNING = "warning"
    NOTE = "note"
    UNKNOWN = "unknown"


class SettledBy(enum.StrEnum):
    """Who settles it, where not everything is the host's own."""

    HOST = "host"
    DRIVER = "driver"  # an operator that brings its own driver brings this, too
    IMAGE = "image"  # the image that a pod starts from


class Failed(Struct, frozen=True, kw_only=True):
    """The problem is there. `takes` and `permanent` narrow what the rule declares."""

    seen: str
    expected: str
    subject: str  # the module, device, GPU or file it is about
    cost: str = ""  # what it costs here; the rule's own words where empty
    takes: tuple[Need, ...] | None = None
    permanent: frozenset[Need] | None = None


class Passed(Struct, frozen=True):
    """Looked, and the problem is not there. `lacking`: what would make an inference certain."""

    why: str
    lacking: tuple[Missing, ...] = ()


class NotApplicable(Struct, frozen=True):
    """The question does not arise on this node."""

    why: str


class Unknown(Struct, frozen=True):
    """Could not look."""

    missing: Missing


Outcome = Failed | Passed | NotApplicable | Unknown


class Rule(Struct, frozen=True, kw_only=True, eq=False):
    """A code and the function that decides it."""

    code: str
    layer: Layer
    check: Fact[Any, Outcome]
    per: Callable[[Node], Iterable[Any]]
    takes: Callable[[Any], tuple[Need, ...]]  # what is gone, given the subject
    permanent: frozenset[Need] = frozenset()  # what of it no remedy can bring back
    slows: tuple[Need, ...] = ()  # what is there, and slow
    direction: Direction = "both"  # send: the NIC reads GPU memory
    default_status: Status = Status.NOTE  # of a finding that stops and slows nothing
    loading: LoadPosition | None = None  # where it stops a module on its way
    module: str = ""  # the only module that it can be about
    logged: bool = False  # the kernel's log always has a line of it where it stops a module
    at_registration: bool = False  # seen when memory is registered: a program has chosen its path by then
    whole_machine: bool = False  # it says what is not there, or counts: no part of a machine tells it
    reported_by: tuple[DecidingCommand, ...] = ()  # the most telling first
    remedies: tuple[RemedyName, ...] = ()  # the one to try first, first
    settled_by: SettledBy = SettledBy.HOST
    cost: str = ""  # what it costs to leave it so, one sentence
    references: tuple[str, ...] = ()

    @property
    def page(self) -> str:
        return self.check.__doc__ or ""


def rule(
    code: str,
    layer: Layer,
    *,
    per: Callable[[Node], Iterable[S]],
    takes: tuple[Need, ...] | Callable[[S], tuple[Need, ...]] = (),
    permanent: tuple[Need, ...] = (),
    slows: tuple[Need, ...] = (),
    direction: Direction = "both",
    default_status: Status = Status.NOTE,
    loading: LoadPosition | None = None,
    module: str = "",
    logged: bool = False,
    at_registration: bool = False,
    whole_machine: bool = False,
    reported_by: tuple[DecidingCommand, ...] = (),
    remedies: tuple[RemedyName, ...] = (),
    settled_by: SettledBy = SettledBy.HOST,
    cost: str = "",
    references: tuple[str, ...] = (),
) -> Callable[[Callable[[Node, S], Outcome]], Rule]:
    """Declare a code, on the function that decides it: `check(node, subject)` for each subject of `per`.

    The check raises EvidenceMissing (facts do it for it) where evidence is missing, never passes instead.
    """

    def declare(check: Callable[[Node, S], Outcome]) -> Rule:
        return Rule(
            code=code,
            layer=layer,
            check=Fact(check),
            per=per,
            takes=takes if callable(takes) else lambda subject: takes,
            permanent=frozenset(permanent),
            slows=slows,
            direction=direction,
            default_status=default_status,
            loading=loading,
            module=module,
            logged=logged,
            at_registration=at_registration,
            whole_machine=whole_machine,
            reported_by=reported_by,
            remedies=remedies,
            settled_by=settled_by,
            cost=cost,
            references=references,
        )

    return declare


def the_node(node: Node) -> Iterable[str]:
    """For rules with one answer per node."""
    return ("node",)
