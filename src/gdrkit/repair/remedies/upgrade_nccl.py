"""The job uses an NCCL that detects nvidia-peermem and supports dma-buf."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.facts.libraries import nccl_copies
from gdrkit.facts.wheels import LibraryCopy
from gdrkit.node import Node, Supposition
from gdrkit.programs.nccl.releases import NEWEST, first_release_with
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    yield nccl_copies.becomes((LibraryCopy(NEWEST, "the newer NCCL"),))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Most jobs load NCCL from their image or environment, not from the machine's package."""
    del node, choices
    newer = f"use NCCL {first_release_with('sees_module')} or newer in the job's image or environment"
    machine = ""
    if platform.upgrade:
        command = " ".join((*platform.upgrade, *platform.nccl))
        machine = f"; if the job uses the machine's NCCL: sudo {command}"
    yield AskPerson(what=newer + machine)


UPGRADE_NCCL = Remedy(
    name=RemedyName.UPGRADE_NCCL,
    title=f"use NCCL {first_release_with('sees_module')} or newer in the image or environment of the job",
    effect=_effect,
    changes=Change.JOB,
    becomes="NCCL detects nvidia-peermem and supports dma-buf",
    risk="all ranks of a job need the same NCCL",
    undo="install the previous version",
    needs_root=False,
    procedure=_procedure,
)
