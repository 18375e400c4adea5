"""Steps for GPUs, NICs and the path between them: power, ACS bits, the IOMMU, MaxReadReq."""

from __future__ import annotations

from collections.abc import Iterator

from gdrkit.facts.acs_redirects import REDIRECTS, redirecting
from gdrkit.facts.kernel import boot_parameter, version
from gdrkit.facts.pci_registers import read_request_bytes
from gdrkit.facts.rdma import nic_address, nics
from gdrkit.node import Node, each_known, if_missing
from gdrkit.repair.platforms import file_contents
from gdrkit.repair.platforms.action import Action, AskPerson, RunCommand, WriteFile
from gdrkit.repair.platforms.boot_arguments import boot_argument
from gdrkit.repair.platforms.choices import ProcedureChoices
from gdrkit.repair.platforms.platform import Platform

READ_REQUEST_MASK = 0x7000
READ_REQUEST_4096 = 0x5000
"""Max_Read_Request_Size is bits 14:12 of Device Control; 5 is 4096 bytes: PCI Express Base 5.0, 7.5.3.4."""
_CONFIG_ACS_SINCE = (6, 12)
"""`pci=config_acs=`: Linux drivers/pci/pci.c. Older kernels have disable_acs_redir, since 4.19."""
RDMA_TOPO = "usr/sbin/rdma_topo"


def set_acs(bridge: str, value: int) -> tuple[str, ...]:
    """The command that writes only those three bits. Source: setpci(8), value:mask."""
    return ("setpci", "-s", bridge, f"ECAP_ACS+0x6.w={value & REDIRECTS:04x}:{REDIRECTS:04x}")


def clear_redirect(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Clear the redirect bits of the bridges between GPU and NIC, now and, if chosen, at each boot."""
    found = redirecting(node)
    if _has_rdma_topo(node):
        yield RunCommand(
            argv=("rdma_topo", "write-grub-acs"),
            why="rdma_topo determines the bits for this topology, and adds them to grub's configuration",
            touches=("/etc/default/grub.d/config-acs.cfg",),
            never_executed=True,
        )
        yield from platform.boot_argument("", "acs")[1:]
        return
    for bridge, control in found.items():
        yield RunCommand(
            argv=set_acs(bridge, 0),
            why=f"stop {bridge} from redirecting peer traffic",
            undo=(set_acs(bridge, control),),
            never_executed=True,
        )
    if choices.acs == "command-line" and found:
        argument = acs_argument(tuple(found), version(node), boot_parameter(node, "pci"))
        yield from boot_argument(node, platform, argument, "acs")
    elif choices.acs == "unit" and found:
        commands = tuple(("/usr/bin/setpci", *set_acs(bridge, 0)[1:]) for bridge in found)
        yield WriteFile(
            path=file_contents.ACS_UNIT,
            content=file_contents.acs_unit(commands),
            why="repeat it at each boot",
        )
        yield RunCommand(
            argv=("systemctl", "enable", "gdrkit-acs.service"),
            why="enable the unit",
            undo=(("systemctl", "disable", "gdrkit-acs.service"),),
            never_executed=True,
        )


def acs_argument(bridges: tuple[str, ...], kernel: tuple[int, ...], present: tuple[str, ...] = ()) -> str:
    """The kernel argument that clears those bits, without quotes. Its five digits are bits 4 to 0.

    `present`: the values of pci= that the running kernel was started with. Their options are repeated,
    since grubby and pbl replace an argument of the same name. One pointer in the kernel holds the devices:
    the last disable_acs_redir= counts, so one for each device would clear the last device's bits alone.
    Source: Linux Documentation/admin-guide/kernel-parameters.txt, pci=config_acs= and disable_acs_redir=;
    the latter does not change Upstream Forwarding. drivers/pci/pci.c, pci_setup().
    """
    option, flags = ("config_acs", "000xx@") if kernel >= _CONFIG_ACS_SINCE else ("disable_acs_redir", "")
    devices = {bridge: f"{flags}{bridge}" for bridge in bridges}
    others = []
    for word in (word for value in present for word in value.split(",")):
        name, _, value = word.partition("=")
        if name == option:
            devices.update(
                (d.rpartition("@")[2], d) for d in value.split(";") if d.rpartition("@")[2] not in bridges
            )
        elif word:
            others.append(word)
    return "pci=" + ",".join((*dict.fromkeys(others), f"{option}=" + ";".join(devices.values())))


def _has_rdma_topo(node: Node) -> bool:
    return if_missing(False, node.exists, RDMA_TOPO)


def passthrough(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Add iommu=pt to the kernel's command line."""
    del choices
    yield from boot_argument(node, platform, "iommu=pt", "iommu")


def read_request(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Set three bits of each NIC's Device Control register. Firmware resets them at each boot."""
    del platform, choices
    named = ((nic.name, nic_address(node, nic.name)) for nic in nics(node))
    for name, address, size in each_known(lambda nic: (*nic, read_request_bytes(node, nic[1])), named):
        if size >= 4096:
            continue
        old = (size.bit_length() - 8) << 12  # 128 bytes is 0
        yield RunCommand(
            argv=("setpci", "-s", address, f"CAP_EXP+0x8.w={READ_REQUEST_4096:04x}:{READ_REQUEST_MASK:04x}"),
            why=f"let {name} read 4096 bytes per request",
            undo=(("setpci", "-s", address, f"CAP_EXP+0x8.w={old:04x}:{READ_REQUEST_MASK:04x}"),),
            never_executed=True,
        )


def enlarge_bar(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """Resizable BAR is a setting of the firmware's setup, which only a person can change."""
    del node, platform, choices
    yield AskPerson(what="enable Above 4G Decoding and Resizable BAR in the firmware setup, then reboot")


def power_cycle(node: Node, platform: Platform, choices: ProcedureChoices) -> Iterator[Action]:
    """A scheduler's and a power supply's business, so a person's.

    Source: NVIDIA GPU Debug Guidelines, Xid 79; ipmitool(1), chassis power."""
    del node, platform, choices
    yield AskPerson(
        what="drain the node: `scontrol update NodeName=NAME State=DRAIN Reason=device-not-answering`, or "
        "`kubectl drain NAME --ignore-daemonsets`"
    )
    yield AskPerson(what="restart it: `sudo systemctl reboot`, then `gdr doctor`")
    yield AskPerson(
        what="if the device still does not answer, remove the power of the whole machine for a minute: "
        "`sudo ipmitool chassis power cycle`, or at its supplies"
    )
    yield AskPerson(
        what="if it stays away or this happens again, reseat the card, and have it replaced: attach the "
        "kernel log and the output of `sudo nvidia-bug-report.sh` to the ticket"
    )
