"""A newer release of a program, in the image or environment of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.node import Node
from gdrkit.programs.consumer import Consumer
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Planner, Platform


def raise_if_complete(program: Consumer, versions: Iterable[str]) -> None:
    """Raise if no version is older than the first one that supports everything."""
    if all(map(program.is_complete, versions)):
        raise EvidenceMissing(Missing(f"an old {program.title}", MissingReason.ABSENT, ""))


def newer(program: Consumer) -> Planner:
    """The procedure: most jobs load a program from their image or environment, not from the machine's
    package."""

    def procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
        del node, platform, choices
        yield AskPerson(what=f"use {program.modern} in the job's image or environment")

    return procedure
