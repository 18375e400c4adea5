"""The machine restarts, if need be with its power removed, so that a device works again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceAbsent, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.gpu_recovery import came_back, lost_gpus, recovery
from gdrkit.facts.gpu_refusal import refusal, refusal_reason
from gdrkit.facts.nic_health import nic_fault
from gdrkit.facts.nvswitch import fabric_fault
from gdrkit.facts.pci import gpus
from gdrkit.facts.pci_registers import answers
from gdrkit.facts.unused_nics import judged_addresses
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node, Supposition, if_missing, lacking
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.failed_devices import drain, ticket
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.failed_devices import fabrics, failed_nics, recovered, stale
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Of every device that failed, it is known only after the restart whether it comes back. Not possible
    where every device is known to work, which after a reset is not."""
    suppositions = tuple(_after_restart(node))
    if not (suppositions or any(_open(node))):
        raise EvidenceAbsent(Missing("a device that failed", MissingReason.ABSENT, "gdr doctor"))
    return suppositions


def _open(node: Node) -> Iterator[bool]:
    """Of each device, whether it is not known that it works."""
    for gpu in gpus(node):
        yield bool(lacking(recovery, node, gpu.address) or lacking(fabric_fault, node, gpu))
    for address in judged_addresses(node):
        yield bool(lacking(nic_fault, node, address))


def _after_restart(node: Node) -> Iterator[Supposition]:
    yield from fabrics(node)
    yield from recovered(node, (gpu for gpu in gpus(node) if if_missing(None, recovery, node, gpu.address)))
    yield from failed_nics(node)
    for gpu in gpus(node):
        if if_missing("", refusal, node, gpu) and if_missing(None, refusal_reason, node, gpu) is None:
            missing = stale(f"whether the driver starts {gpu.address}", "ls /proc/driver/nvidia/gpus")
            yield refusal.becomes(missing, gpu)
    for gpu in lost_gpus(node):
        missing = stale(f"whether {gpu.address} is back", f"lspci -s {quoted(gpu.address)}")
        yield came_back.becomes(missing, gpu.address)
    for address in (*(gpu.address for gpu in gpus(node)), *judged_addresses(node)):
        if not if_missing(True, answers, node, address):
            missing = stale(f"whether {address} answers", f"lspci -v -s {quoted(address)}")
            yield answers.becomes(missing, address)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Source: NVIDIA GPU Debug Guidelines, Xid 79; ipmitool(1), chassis power."""
    del platform, choices
    yield drain("device-not-answering")
    yield AskPerson(what="restart it: `sudo systemctl reboot`, then `gdr doctor`")
    still = "if the device still does not answer"
    if if_missing("none", virtual_machine, node) == "none":
        yield AskPerson(
            what=f"{still}, remove the power of the whole machine for a minute: "
            "`sudo ipmitool chassis power cycle`, or at its supplies"
        )
    else:
        yield AskPerson(
            what=f"{still}, stop the virtual machine from outside, and start it again: a cloud then gives "
            "it another host"
        )
    yield ticket("if it stays away or this happens again")


POWER_CYCLE = Remedy(
    name=RemedyName.POWER_CYCLE,
    title="drain the node, and restart it; if that does not help, with its power removed",
    effect=_effect,
    changes=Change.RESTART,
    becomes="the device works again, unless it is broken",
    risk="everything on the machine stops; a device that is broken stays away",
    undo="not needed",
    needs_reboot=True,
    procedure=_procedure,
)
