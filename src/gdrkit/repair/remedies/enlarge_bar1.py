"""BAR1 covers all GPU memory, which the firmware's setup decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import Missing, MissingReason
from gdrkit.facts.commands import NVIDIA_SMI_MEMORY
from gdrkit.facts.driver_log import last_line
from gdrkit.facts.nvidia_smi import smi_memory
from gdrkit.facts.pci import gpus
from gdrkit.facts.pci_registers import bar1_bytes
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.bar1 import NO_SPACE
from gdrkit.rules.remedy_names import RemedyName

LARGE_BAR1_BYTES = 1 << 37
"""Assumed size of a BAR1 that covers all GPU memory: 128 GiB, the BAR1 of an H100 with 80 GB."""


def _effect(node: Node) -> Iterable[Supposition]:
    """What was seen of the former window, in use or full, does not show how the new one is used."""
    for gpu in gpus(node):
        yield bar1_bytes.becomes(LARGE_BAR1_BYTES, gpu.address)
    yield smi_memory.becomes(Missing("use of BAR1", MissingReason.STALE, NVIDIA_SMI_MEMORY.line))
    yield last_line.becomes(None, NO_SPACE)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Resizable BAR is a setting of the firmware's setup, which only a person can change."""
    del node, platform, choices
    yield AskPerson(what="enable Above 4G Decoding and Resizable BAR in the firmware setup, then reboot")


ENLARGE_BAR1 = Remedy(
    name=RemedyName.ENLARGE_BAR1,
    title="turn on Above 4G Decoding and Resizable BAR in the firmware setup",
    effect=_effect,
    changes=Change.FIRMWARE,
    becomes="BAR1 covers all GPU memory",
    risk="an old operating system or card may not start with it",
    undo="turn both off again in the firmware setup",
    needs_reboot=True,
    procedure=_procedure,
)
