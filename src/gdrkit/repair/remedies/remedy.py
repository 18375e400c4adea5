"""What a remedy is: what it makes true, what it makes uncertain, and the commands that carry it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms.change import Change
from gdrkit.rules.capabilities import DIRECT
from gdrkit.rules.remedy_names import RemedyName

if TYPE_CHECKING:
    from gdrkit.repair.platforms.driver_options import DriverOptions
    from gdrkit.repair.platforms.platform import Planner


class Remedy(Struct, frozen=True, kw_only=True, eq=False):
    """A step that fixes a problem. Its effect sets facts, never bytes of files. Rules name what it fixes."""

    name: RemedyName
    title: str  # imperative: "sign the module with a key of your own"
    changes: Change  # which platforms can do it, and how
    effect: Callable[[Node], Iterable[Supposition]]  # raises EvidenceMissing if not possible here
    becomes: str  # what is true afterwards, in one clause
    procedure: Planner
    commands: tuple[str, ...] = ()  # the shapes of those that it runs, besides those of each platform
    risk: str
    undo: str
    needs_root: bool = True
    needs_reboot: bool = False
    paths: tuple[str, ...] = DIRECT  # the paths that it serves
    driver_options: DriverOptions | None = None
    drops_signatures: bool = False  # NVIDIA's modules are other files afterwards, with another signer


def standing(taken: Sequence[Remedy]) -> Sequence[Remedy]:
    """The steps that still hold after all of them: modules that are built after a signing need another."""
    built = _last_build(taken)
    return [step for at, step in enumerate(taken) if at > built or step.name != RemedyName.SIGN_MODULE]


def needs_signing(taken: Sequence[Remedy]) -> bool:
    """Whether modules were replaced, and not signed since."""
    return _last_build(taken) >= 0 and all(s.name != RemedyName.SIGN_MODULE for s in standing(taken))


def _last_build(taken: Sequence[Remedy]) -> int:
    return max((at for at, step in enumerate(taken) if step.drops_signatures), default=-1)
