"""The machine reboots into the driver that is installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import (
    disk_driver_flavour,
    disk_driver_version,
    driver_flavour,
    driver_path,
    driver_version,
)
from gdrkit.facts.driver_files import DRIVER
from gdrkit.facts.gpu import any_before_turing
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import SignatureState, signature_check
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import loaded_at_boot
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """The loaded driver becomes the installed one, if another is installed and supports every GPU.

    Whether the boot loads it is as sure as the prediction for its file; where a kernel that needs signatures
    may refuse it, a signing may come next."""
    changes = tuple(_changes(node))
    if not changes:
        raise EvidenceMissing(
            Missing("another driver on disk", MissingReason.UNDECIDED, "modinfo -F license nvidia")
        )
    if if_missing("", disk_driver_flavour, node) == "open" and any_before_turing(node):
        raise EvidenceMissing(Missing("a GPU of Turing or later", MissingReason.ABSENT, "nvidia-smi -L"))
    yield from changes
    if if_missing(False, signatures_needed, node) and not if_missing(False, _is_verified, node):
        ask = "modinfo -F signer nvidia"
        yield is_loaded.becomes(Missing("whether nvidia loads", MissingReason.STALE, ask), DRIVER)
    else:
        yield is_loaded.becomes(loaded_at_boot(node, DRIVER, (DRIVER,)), DRIVER)


def _changes(node: Node) -> Iterator[Supposition]:
    """What is known to differ between the driver that runs and the one on disk."""
    for fact, on_disk in ((driver_version, disk_driver_version), (driver_flavour, disk_driver_flavour)):
        installed = if_missing("", on_disk, node)
        if installed and installed != if_missing(installed, fact, node):
            yield fact.becomes(installed)


def _is_verified(node: Node) -> bool:
    return signature_check(node, driver_path(node)).state is SignatureState.VERIFIED


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Ask for a reboot: gdrkit never reboots a machine itself. An initramfs with the former driver would
    load that one again: dracut(8) and initramfs-tools(7) put in what is installed when they run."""
    del choices
    yield from refresh_if_there(node, platform, "it may contain the former driver", (DRIVER,))
    yield AskPerson(what="reboot")


REBOOT = Remedy(
    name=RemedyName.REBOOT,
    title="reboot into the driver that is installed",
    effect=_effect,
    changes=Change.RESTART,
    becomes="the loaded driver is the installed one",
    risk="everything on the machine stops",
    undo="not needed",
    needs_reboot=True,
    procedure=_procedure,
)
