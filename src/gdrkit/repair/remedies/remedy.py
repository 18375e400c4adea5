"""What a step is: what it makes true, and what it makes uncertain."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from gdrkit.node import Node, Supposition
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import DIRECT


class Remedy(Struct, frozen=True, kw_only=True, eq=False):
    """A step that somebody could take. It sets conclusions, never bytes. What it cures, the rules say."""

    name: RemedyName
    title: str  # what somebody would say of it: "sign the module with a key of your own"
    effect: Callable[[Node], Iterable[Supposition]]  # raises EvidenceMissing where the step is not to be had
    becomes: str  # what is true afterwards, in one sentence
    risk: str
    undo: str
    needs_root: bool = True
    needs_reboot: bool = False
    paths: tuple[str, ...] = DIRECT  # the paths that it serves
    replaces_driver: bool = False  # where an operator's container brings the driver, that one has to change
