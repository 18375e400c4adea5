"""NICs whose firmware failed, or never started."""

from __future__ import annotations

from gdrkit.facts import kernel_log
from gdrkit.facts.nic_health import is_in_recovery, nic_fault
from gdrkit.facts.pci import PciDevice, device_at
from gdrkit.facts.rdma import RdmaDevice, nics
from gdrkit.facts.unused_nics import UnusedNic, address_of, judged_nics
from gdrkit.node import Node, if_missing, lacking
from gdrkit.rules.capabilities import Need
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import WIRE, Failed, Layer, Outcome, Passed, Status, rule

_KERNEL_LOG = "sudo dmesg | grep mlx5_core"


def _taken_by(subject: RdmaDevice | UnusedNic | PciDevice) -> tuple[Need, ...]:
    return () if isinstance(subject, PciDevice) else (WIRE,)  # no GPU is judged at it


@rule(
    "nic-failed",
    Layer.HARDWARE,
    per=judged_nics,
    takes=_taken_by,
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            _KERNEL_LOG, "`health compromised`, `PCI slot is unavailable` or `Firmware over ... MS`"
        ),
        DecidingCommand("lspci -d 15b3:", "`Flash Recovery`"),
    ),
    remedies=(RemedyName.RESET_NIC, RemedyName.POWER_CYCLE),
    cost="No program can use the NIC, and jobs that were using it fail or hang.",
    references=("https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/devlink.html",),
)
def nic_failed(node: Node, subject: RdmaDevice | UnusedNic | PciDevice) -> Outcome:
    """The NIC's firmware failed while the machine ran, or never started.

    Cost: Its connections break, and its ports go down or its RDMA device disappears. A job that used it
    fails on all its nodes.

    How to tell: `sudo dmesg | grep mlx5_core` shows, for the NIC's address, `device's health compromised -
    reached miss count`, `PCI slot is unavailable`, `Fatal error`, `health recovery failed`, or `Firmware
    over 120000 MS in pre-initializing state`, and after it no `health recovery succeeded`. `lspci -d 15b3:`
    may name it `Flash Recovery`.

    What to do: Stop the jobs on the NIC, then reset it: `sudo mlxfwreset -d <address> reset`, or `sudo
    devlink dev reload pci/<address> action fw_activate`. If that fails, restart the node, then remove its
    power. A NIC in flash recovery needs its firmware flashed: `sudo flint -d <address> -i <image> burn`. If
    it happens again, update the firmware, reseat the card, and attach the output of `sudo sysinfo-snapshot`
    and the kernel log to the ticket.

    Why: The firmware stopped because of an error in it, in its hardware, by heat or by the PCIe link, or its
    flash is damaged. The driver tries to recover it by itself; this one was not.

    Source: Linux drivers/net/ethernet/mellanox/mlx5/core/health.c and main.c; pci.ids for flash recovery.
    """
    address = address_of(node, subject)
    fault = nic_fault(node, address)
    if not fault:
        return Passed("no error of its firmware", lacking=lacking(kernel_log.lines, node))
    named = isinstance(subject, RdmaDevice)
    known = if_missing(None, device_at, node, address)
    burn = (
        f"Burn its firmware, which alone helps: `sudo flint -d {address} -i IMAGE burn` with the image for "
        "its board, then remove the node's power. Without firmware there is nothing to reset. If the burn "
        "fails, replace the card."
    )
    return Failed(
        seen=f"{address}: {fault}" if named else fault,
        expected="firmware that runs",
        subject=subject.name if isinstance(subject, RdmaDevice) else address,
        advice=burn if known is not None and is_in_recovery(known) else "",
        takes=(WIRE,) if isinstance(subject, PciDevice) and not nics(node) else None,
    )
