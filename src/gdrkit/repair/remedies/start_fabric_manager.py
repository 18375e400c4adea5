"""NVIDIA Fabric Manager runs, so that the NVSwitches are set up."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.node import Node
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.failed_devices import fabrics
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Source: NVIDIA Fabric Manager User Guide, installing and running as a service."""
    del node, platform, choices
    yield AskPerson(
        what="install Fabric Manager of exactly the driver's version (on B200 and newer with nvlsm), and "
        "start it",
        commands=("cat /proc/driver/nvidia/version", "sudo systemctl enable --now nvidia-fabricmanager"),
    )
    yield AskPerson(
        what="if it does not stay active, read /var/log/fabricmanager.log; after a fatal SXid, restart "
        "the node"
    )


START_FABRIC_MANAGER = Remedy(
    name=RemedyName.START_FABRIC_MANAGER,
    title="start NVIDIA Fabric Manager, of exactly the driver's version",
    effect=fabrics,
    changes=Change.SERVICE,
    becomes="the NVSwitches are set up, unless one of them or a link is broken",
    risk="jobs on other GPUs of the board are aborted if it restarts",
    undo="sudo systemctl disable --now nvidia-fabricmanager",
    procedure=_procedure,
)
