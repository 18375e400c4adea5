"""A NIC whose firmware failed runs again."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.nic_health import nic_fault
from gdrkit.facts.unused_nics import judged_addresses
from gdrkit.node import Node, if_missing
from gdrkit.repair.platforms.action import Action, AskPerson
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.failed_devices import drain, ticket
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.failed_devices import failed_nics
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Source: mstflint mlxfwreset(1); Linux Documentation/networking/devlink/devlink-reload.rst."""
    del platform, choices
    yield drain("nic-failed")
    yield AskPerson(
        what="reset the NIC, then `gdr doctor`",
        commands=tuple(
            f"sudo mlxfwreset -d {one} -y reset"
            for one in judged_addresses(node)
            if if_missing("", nic_fault, node, one)
        ),
    )
    yield ticket("if its firmware does not start, flash it with `flint`; if it fails again")


RESET_NIC = Remedy(
    name=RemedyName.RESET_NIC,
    title="drain the node, and reset the NIC",
    effect=failed_nics,
    changes=Change.RESTART,
    becomes="the NIC's firmware runs again, unless it is broken",
    risk="every connection through the NIC breaks, on all its ports",
    undo="not needed",
    procedure=_procedure,
)
