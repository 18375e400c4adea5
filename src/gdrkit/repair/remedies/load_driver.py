"""The NVIDIA driver is loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import disk_driver_flavour, disk_driver_version, driver_flavour, driver_version
from gdrkit.facts.driver_files import DRIVER, driver_path
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.secure_boot import signatures_needed
from gdrkit.facts.trust import SignatureState, signature_check
from gdrkit.node import Node, Supposition, if_missing
from gdrkit.repair.platforms.action import Action, RunCommand
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import loaded_afterwards
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.driver_not_loaded import other_holder
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Only possible if modprobe is not predicted to fail, with a signature that is known to be accepted, and
    if no other driver holds the GPU: nvidia then finds none, and its init fails with ENODEV."""
    loaded = loaded_afterwards(node, DRIVER)
    if (
        if_missing(False, signatures_needed, node)
        and signature_check(node, driver_path(node)).state is not SignatureState.VERIFIED
    ):
        raise EvidenceMissing(
            Missing("a driver that the kernel accepts", MissingReason.UNDECIDED, "gdr modprobe nvidia")
        )
    if holder := other_holder(node):
        raise EvidenceMissing(
            Missing(f"a GPU that {holder} does not hold", MissingReason.ABSENT, "lspci -k -d 10de:")
        )
    yield is_loaded.becomes(loaded, DRIVER)
    yield driver_flavour.becomes(disk_driver_flavour(node))
    yield driver_version.becomes(disk_driver_version(node))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Load the driver, and nvidia_uvm, which CUDA needs."""
    del node, platform, choices
    for name in ("nvidia", "nvidia_uvm"):
        yield RunCommand(argv=("modprobe", name), why=f"load {name}", undo=(("modprobe", "-r", name),),
                         never_executed=True)  # fmt: skip


LOAD_DRIVER = Remedy(
    name=RemedyName.LOAD_DRIVER,
    title="load the NVIDIA driver",
    effect=_effect,
    changes=Change.DRIVER,
    becomes="nvidia is loaded",
    risk="none beyond that of any driver",
    undo="sudo modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia",
    procedure=_procedure,
    commands=("modprobe nvidia", "modprobe nvidia_uvm", "modprobe -r nvidia", "modprobe -r nvidia_uvm"),
)
