"""What a rule is, what it may answer, and which cells of the matrix it speaks for. PURE.

A code is declared once, by the decorator on the function that decides it. Ladder, schema, help and docs
pages derive from here; a code's page is the function's docstring.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from msgspec import Struct

from gdrkit.consumers.consumer import Capability, Need
from gdrkit.evidence import Missing
from gdrkit.node import Fact, Node

S = TypeVar("S", bound=Hashable)

DIRECT = ("dmabuf", "peermem")
FALLBACKS = ("host-mapped", "staged", "socket")
PATHS = (*DIRECT, *FALLBACKS)
GPU, WIRE, DMABUF, ADDRESS = Capability.GPU, Capability.WIRE, Capability.DMABUF, Capability.ADDRESS
REGISTRATION = (DMABUF, ADDRESS)


class Layer(enum.IntEnum):
    """Where in the stack a problem lies, from the ground up."""

    HARDWARE, FIRMWARE, KERNEL, DRIVER, RDMA, PCIE, LIBRARY, APPLICATION = range(8)

    @property
    def word(self) -> str:
        return self.name.lower()


class Failed(Struct, frozen=True, kw_only=True):
    """The problem is there. `takes` and `permanent` narrow what the rule declares."""

    seen: str
    expected: str
    subject: str  # the module, device, GPU or file it is about
    cost: str = ""  # what it costs here; the rule's own words where empty
    takes: tuple[Need, ...] | None = None
    permanent: bool | None = None


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
    slows: tuple[Need, ...] = ()  # what is there, and slow
    aside: str = "note"  # the status of a finding that stops and slows nothing: note or warning
    direction: str = "both"  # both, send (the NIC reads GPU memory), receive
    permanent: bool = False  # no remedy can exist
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
    slows: tuple[Need, ...] = (),
    aside: str = "note",
    direction: str = "both",
    permanent: bool = False,
    cost: str = "",
    references: tuple[str, ...] = (),
) -> Callable[[Callable[[Node, S], Outcome]], Rule]:
    """Declare a code, on the function that decides it: `check(node, subject)` for each subject of `per`.

    The check raises Lacks (facts do it for it) where evidence is missing, never passes instead.
    """

    def declare(check: Callable[[Node, S], Outcome]) -> Rule:
        return Rule(
            code=code,
            layer=layer,
            check=Fact(check),
            per=per,
            takes=takes if callable(takes) else lambda subject: takes,
            slows=slows,
            aside=aside,
            direction=direction,
            permanent=permanent,
            cost=cost,
            references=references,
        )

    return declare


def the_node(node: Node) -> Iterable[str]:
    """For rules with one answer per node."""
    return ("node",)
