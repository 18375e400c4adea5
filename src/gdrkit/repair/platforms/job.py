"""What a person changes in the image, environment or container of the job, and not on a host."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.node import Node
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import without_packages
from gdrkit.repair.remedies.remedy import Remedy


def carry_out(node: Node, remedy: Remedy, choices: ProcedureChoices) -> Iterator[AskPerson]:
    """What is to be done of a remedy's procedure in the job, and not on a host. Raises EvidenceMissing."""
    asked = 0
    for action in remedy.procedure(node, without_packages("", _no_argument), choices):
        if isinstance(action, AskPerson):
            asked += 1
            yield action
    if not asked:
        yield AskPerson(what=f"in the image or environment of the job, make sure that {remedy.becomes}")


def _no_argument(argument: str, name: str) -> tuple[Action, ...]:
    del argument, name
    return ()
