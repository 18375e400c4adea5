"""The bridges between GPU and NIC forward peer traffic directly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gdrkit.facts.acs_redirects import REDIRECTS, redirecting
from gdrkit.facts.kernel import boot_parameter, release
from gdrkit.facts.pci_registers import acs
from gdrkit.node import Node, Supposition
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.acs_arguments import (
    config_acs,
    disable_acs_redir,
    reads_config_acs,
    reads_lists,
)
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.boot_arguments import boot_argument
from gdrkit.repair.platforms.change import Change
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.families import setpci
from gdrkit.repair.platforms.platform import Platform
from gdrkit.repair.remedies.remedy import Remedy
from gdrkit.rules.remedy_names import RemedyName


def _effect(node: Node) -> Iterable[Supposition]:
    """Bridges between a GPU and a NIC no longer redirect; those whose register was not read stay as they
    are."""
    for bridge, control in redirecting(node).items():
        found = acs(node, bridge)
        if found is not None:
            yield acs.becomes(replace(found, control=control & ~REDIRECTS), bridge)


def _procedure(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Clear the redirect bits of the bridges between GPU and NIC, now and, if chosen, at each boot.

    rdma_topo is of no use here: it knows no ordinary switch, and there its write-grub-acs deletes the file
    that it finds (rdma-core kernel-boot/rdma_topo, cmd_write_grub_acs())."""
    found = redirecting(node)
    for bridge, control in found.items():
        yield RunCommand(
            argv=set_acs(bridge, 0),
            why=f"stop {bridge} from redirecting peer traffic",
            undo=(set_acs(bridge, control),),
            never_executed=True,
        )
    if choices.acs == "command-line" and found:
        running = release(node)
        argument = _argument(tuple(found), running, boot_parameter(node, "pci"))
        if len(found) > 1 and reads_lists(running) is False:
            yield AskPerson(
                what="this kernel configures only the first of several devices of a pci= argument: keep the "
                "bits clear with --acs unit, or install Linux 6.15 or newer"
            )
        yield from boot_argument(node, platform, argument, "acs")
    elif choices.acs == "unit" and found:
        yield WriteFile(
            path=file_contents.ACS_UNIT,
            content=acs_unit(node, found),
            why="repeat it at each boot",
        )
        yield RunCommand(
            argv=("systemctl", "enable", "gdrkit-acs.service"),
            why="enable the unit",
            undo=(("systemctl", "disable", "gdrkit-acs.service"),),
            never_executed=True,
        )


def set_acs(bridge: str, value: int) -> tuple[str, ...]:
    """The command that writes only those three bits. Source: setpci(8), value:mask."""
    return ("setpci", "-s", bridge, f"ECAP_ACS+0x6.w={value & REDIRECTS:04x}:{REDIRECTS:04x}")


def acs_unit(node: Node | None, bridges: Iterable[str]) -> str:
    """The unit that clears the bits of a node's bridges at each boot."""
    return file_contents.acs_unit((setpci(node), *set_acs(bridge, 0)[1:]) for bridge in bridges)


def _argument(bridges: tuple[str, ...], release: str, present: tuple[str, ...]) -> str:
    """The kernel argument that clears those bits, without quotes. Its five digits are bits 4 to 0."""
    if reads_config_acs(release):
        return config_acs(dict.fromkeys(bridges, "000xx"), present)
    return disable_acs_redir(bridges, present)


CLEAR_ACS_REDIRECT = Remedy(
    name=RemedyName.CLEAR_ACS_REDIRECT,
    title="clear ACS redirection on the bridges between GPU and NIC only",
    effect=_effect,
    changes=Change.REGISTER,
    becomes="the switch forwards peer traffic directly",
    risk="devices below these bridges are no longer isolated; not for a host that passes them to guests",
    undo="remove what repeats it at each boot (gdrkit-acs.service or the kernel argument), then reboot, or "
    "restore the former value with setpci",
    procedure=_procedure,
    commands=(
        "setpci -s ADDRESS REGISTER",
        "systemctl enable gdrkit-acs.service",
        "systemctl disable gdrkit-acs.service",
    ),
)
