"""What a rule is, its possible outcomes, and which cells of the matrix it applies to.

A code is declared once, by the decorator on the function that decides it, with all properties of the code.
The order of layers, schema, help, docs pages, plans and questions are derived from here; a code's page is
the function's docstring.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from gdrkit.evidence import Missing
from gdrkit.evidence.ranked import Ranked
from gdrkit.node import Fact, Node
from gdrkit.rules.capabilities import Capability, Direction, Need
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.stage import LoadPosition

S = TypeVar("S", bound=Hashable)

GPU, WIRE, DMABUF, ADDRESS = Capability.GPU, Capability.WIRE, Capability.DMABUF, Capability.ADDRESS
DOORBELL, NIC_QUEUES, FABRIC = Capability.DOORBELL, Capability.NIC_QUEUES, Capability.FABRIC
PINNING, EFA_P2P, VMM = Capability.PINNING, Capability.EFA_P2P, Capability.VMM
GDRDRV, NVIDIA_FS, P2PDMA = Capability.GDRDRV, Capability.NVIDIA_FS, Capability.P2PDMA


class Layer(Ranked):
    """The layer of the stack that a problem is in, lowest first."""

    HARDWARE = "hardware"
    FIRMWARE = "firmware"
    KERNEL = "kernel"
    DRIVER = "driver"
    RDMA = "rdma"
    PCIE = "pcie"
    LIBRARY = "library"
    APPLICATION = "application"


class Status(enum.StrEnum):
    """What a check result means for a node. Derived: the same stub may fail one node and not another."""

    FAILED = "failed"
    WARNING = "warning"
    NOTE = "note"
    UNKNOWN = "unknown"


class CauseTrait(enum.StrEnum):
    """What a cause has in common with others, for programs that compare causes."""

    NOT_LOADED = "not-loaded"  # a module is not loaded: whatever keeps one from loading brings it about
    OF_LOADING = "of-loading"  # why something that loads nvidia-peermem does not get it loaded
    NVIDIA_ONLY = "nvidia-only"  # GPUs and libraries of other makers do not have it


class SettledBy(enum.StrEnum):
    """What determines the outcome: the host, or software that is not installed on the host."""

    HOST = "host"
    DRIVER = "driver"  # an operator that installs its own driver installs this too
    IMAGE = "image"  # the image that a pod starts from


class Failed(Struct, frozen=True, kw_only=True):
    """The problem exists. `takes` and `permanent` narrow what the rule declares."""

    seen: str
    expected: str
    subject: str  # the module, device, GPU or file it is about
    cost: str = ""  # what it costs here; if empty, the cost that the rule declares
    advice: str = ""  # what to do here; if empty, the page's "What to do"
    takes: tuple[Need, ...] | None = None
    permanent: frozenset[Need] | None = None
    as_expected: bool = False  # by the user, or as every such machine is: a note


class Passed(Struct, frozen=True):
    """The problem does not exist. `lacking`: evidence that would make an inference certain."""

    why: str
    lacking: tuple[Missing, ...] = ()


class NotApplicable(Struct, frozen=True):
    """The rule does not apply to this node."""

    why: str


class Unknown(Struct, frozen=True):
    """Evidence is missing."""

    missing: Missing


Outcome = Failed | Passed | NotApplicable | Unknown


class Rule(Struct, frozen=True, kw_only=True, eq=False):
    """A code and the function that decides it."""

    code: str
    layer: Layer
    check: Fact[Any, Outcome]
    per: Callable[[Node], Iterable[Any]]
    takes: Callable[[Any], tuple[Need, ...]]  # what the problem takes away, given the subject
    permanent: frozenset[Need] = frozenset()  # the part of it that no remedy restores
    slows: tuple[Need, ...] = ()  # what still works, but slowly: WIRE means also through host memory
    direction: Direction = "both"  # send: the NIC reads GPU memory
    default_status: Status = Status.NOTE  # of a finding that blocks and slows nothing
    loading: LoadPosition | None = None  # where it stops the loading of a module
    module: str = ""  # the only module that the rule is about
    logged: bool = False  # whenever it stops a module, the kernel log has a line
    traits: tuple[CauseTrait, ...] = ()
    at_registration: bool = False  # only seen when memory is registered, after a program chose its path
    whole_machine: bool = False  # about absence or a count: needs evidence of the whole machine
    reported_by: tuple[DecidingCommand, ...] = ()  # the most conclusive first
    remedies: tuple[RemedyName, ...] = ()  # in the order to try them
    settled_by: SettledBy = SettledBy.HOST
    cost: str = ""  # what the problem costs if it is not fixed, in one sentence
    references: tuple[str, ...] = ()

    @property
    def about_loading(self) -> bool:
        """Whether it names why a module, or what loads one, does not get it loaded."""
        return self.loading is not None or CauseTrait.OF_LOADING in self.traits

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
    traits: tuple[CauseTrait, ...] = (),
    at_registration: bool = False,
    whole_machine: bool = False,
    reported_by: tuple[DecidingCommand, ...] = (),
    remedies: tuple[RemedyName, ...] = (),
    settled_by: SettledBy = SettledBy.HOST,
    cost: str = "",
    references: tuple[str, ...] = (),
) -> Callable[[Callable[[Node, S], Outcome]], Rule]:
    """Declare a code on its `check(node, subject of per)`, which lets EvidenceMissing propagate."""

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
            traits=traits,
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
    """The single subject of rules that have one outcome per node."""
    return ("node",)


SHOWN_BY_MESSAGES = NotApplicable("only a message of a program shows it")
"""No file of a node decides such a code, so the node is not judged by it. A line in a text is evidence."""
