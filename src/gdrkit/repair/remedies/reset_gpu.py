"""A GPU that needs a reset works again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.facts.gpu_recovery import is_cured_by_reset, recovery
from gdrkit.facts.nvswitch import has_switches
from gdrkit.facts.pci import gpus
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.failed_devices import drain, ticket
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.failed_devices import recovered
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Only for GPUs that need no more than a reset; not possible if all that need something need more."""
    broken = [gpu for gpu in gpus(node) if recovery(node, gpu.address)]  # raises after a restart
    cured = [gpu for gpu in broken if is_cured_by_reset(node, gpu)]
    if broken and not cured:
        ask = "nvidia-smi -q | grep Recovery"
        raise EvidenceAbsent(Missing("a GPU that a reset recovers", MissingReason.ABSENT, ask))
    return recovered(node, cured)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Source: nvidia-smi(1), --gpu-reset; NVIDIA GPU Debug Guidelines, GPU reset capabilities."""
    del platform, choices
    addresses = [gpu.address for gpu in gpus(node) if is_cured_by_reset(node, gpu)]
    yield drain("gpu-needs-reset")
    yield AskPerson(
        what="stop every service that uses the GPU, such as nvidia-persistenced, DCGM and, before a reset "
        "of all GPUs, Fabric Manager",
        commands=("sudo systemctl stop nvidia-persistenced nvidia-dcgm",),
    )
    together = " (before Hopper, reset all GPUs together: without -i)" if has_switches(node) else ""
    yield AskPerson(
        what=f"reset the GPU, then `gdr doctor`{together}",
        commands=tuple(f"sudo nvidia-smi --gpu-reset -i {address}" for address in addresses),
    )
    yield ticket("if it happens again")


RESET_GPU = Remedy(
    name=RemedyName.RESET_GPU,
    title="drain the node, and reset the GPU",
    effect=_effect,
    changes=Change.RESTART,
    becomes="the GPU works again, unless it is broken or needs a reboot",
    risk="everything that uses the GPU stops, on boards with NVSwitches before Hopper that uses any GPU",
    undo="not needed",
    procedure=_procedure,
)
