"""No other driver, such as nouveau, holds the GPU, so that nvidia finds it at boot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.facts.driver import (
    DRIVER,
    disk_driver_flavour,
    disk_driver_version,
    driver_flavour,
    driver_version,
)
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci import devices, gpus
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, WriteFile
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.module_files import refresh_if_there
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.predicted_load import loaded_afterwards
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.driver_not_loaded import other_holder
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """The boot finds the GPU without a driver, and loads nvidia for it, as far as that is predicted."""
    holder = other_holder(node)
    if not holder:
        raise EvidenceMissing(
            Missing("another driver of the GPU", MissingReason.ABSENT, "lspci -k -d 10de:")
        )
    loaded = loaded_afterwards(node, DRIVER)
    yield is_loaded.becomes(False, holder)
    own = {gpu.address for gpu in gpus(node)}
    yield devices.becomes(
        tuple(
            replace(device, driver="") if device.address in own and device.driver == holder else device
            for device in devices(node)
        )
    )
    yield is_loaded.becomes(loaded, DRIVER)
    yield driver_flavour.becomes(disk_driver_flavour(node))
    yield driver_version.becomes(disk_driver_version(node))


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Blacklist the driver that holds the GPU, also in the initramfs, which loads it first."""
    del choices
    if holder := other_holder(node):
        yield WriteFile(
            path=f"/etc/modprobe.d/gdrkit-{RemedyName.RELEASE_GPU}.conf",
            content=file_contents.modprobe_blacklist(holder),
            why=f"no device loads {holder} any more",
        )
        refresh = tuple(refresh_if_there(node, platform, f"it may load {holder}"))
        yield from refresh
        yield AskPerson(what="reboot" if refresh else "renew the initramfs, if there is one, and reboot")


RELEASE_GPU = Remedy(
    name=RemedyName.RELEASE_GPU,
    title="keep the other driver off the GPU, and reboot",
    effect=_effect,
    changes=Change.LOADING,
    becomes="no other driver takes the GPU at boot, and nvidia can",
    risk="everything on the machine stops; a screen at this GPU may stay dark until nvidia runs",
    undo="remove the file from /etc/modprobe.d, renew the initramfs, and reboot",
    needs_reboot=True,
    procedure=_procedure,
)
