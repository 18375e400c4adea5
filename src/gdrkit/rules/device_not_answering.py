"""GPUs and NICs that the kernel lists and that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gdrkit.evidence import EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import kernel_log
from gdrkit.facts.pci import ROOT, PciDevice, PciGpu, gpus
from gdrkit.facts.pci_registers import answers
from gdrkit.facts.rdma import RdmaDevice, nics
from gdrkit.facts.unused_nics import UnusedNic, address_of, judged_nics
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import Need
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import GPU, WIRE, Failed, Layer, Outcome, Passed, Status, rule

ListedDevice: TypeAlias = PciGpu | RdmaDevice | UnusedNic | PciDevice

ASLEEP = "D3cold"
"""The power state of a device without power. The kernel wakes one that it put to sleep before it reads
(drivers/pci/pci.c, pci_config_pm_runtime_get()), but not one that bbswitch or firmware put to sleep."""


def listed(node: Node) -> Iterator[ListedDevice]:
    """The GPUs, and the NICs with and without an RDMA device."""
    yield from if_missing((), gpus, node)
    yield from judged_nics(node)


def _taken_by(subject: ListedDevice) -> tuple[Need, ...]:
    match subject:
        case PciGpu():
            return (GPU,)
        case RdmaDevice() | UnusedNic():
            return (WIRE,)
        case _:  # no GPU is judged at this NIC
            return ()


@rule(
    "device-not-answering",
    Layer.HARDWARE,
    per=listed,
    takes=_taken_by,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("lspci -v", "`(rev ff)` or `!!! Unknown header type 7f`"),),
    remedies=(RemedyName.POWER_CYCLE,),
    cost="No program can use the device, and jobs that were using it fail or hang.",
    references=(
        "https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
)
def device_not_answering(node: Node, subject: ListedDevice) -> Outcome:
    """The GPU or NIC does not answer: every read of its configuration space returns ones.

    Cost: No program can use the device, and jobs that were using it fail or hang. On a board with
    NVSwitches, the other GPUs may lose NVLink as well.

    How to tell: `lspci -v` prints `(rev ff)` or `!!! Unknown header type 7f` for it, and
    `xxd -l 64 /sys/bus/pci/devices/<address>/config` shows only ff. The kernel log often has
    `NVRM: Xid (PCI:<address>): 79, GPU has fallen off the bus`.

    What to do: Drain the node and restart it. If the device still does not answer, switch the node off and
    remove its power, for example with `ipmitool chassis power cycle`. If that does not help, or it happens
    again, reseat the card and its power cable, and have it replaced. `nvidia-smi --gpu-reset` cannot reach
    such a GPU. Keep the kernel log and the output of `nvidia-bug-report.sh` for the ticket.

    Why: The device lost power or overheated, its firmware hung, or its PCIe link broke. The kernel keeps
    listing a device that disappears without being removed, with the ids that it read at boot; so it is still
    in `lspci` and in /sys. A virtual function whose id alone is ffff:ffff works: the specification wants
    that.

    Source: PCI Express Base 5.0, 2.3.2; Linux include/linux/pci.h, PCI_ERROR_RESPONSE; NVIDIA GPU Debug
    Guidelines, Xid 79.
    """
    address = address_of(node, subject)
    if answers(node, address):
        return Passed(f"{address} answers")
    logged = _logged(node, address)
    if not logged and _asleep(node, address):
        ask = f"lspci -v -s {quoted(address)}"
        raise EvidenceMissing(Missing(f"{address} while it has power", MissingReason.UNDECIDED, ask))
    name = f"{subject.name}, {address}," if isinstance(subject, RdmaDevice) else address
    return Failed(
        seen=f"{name} reads as all ones{logged}",
        expected="the header of the device's configuration space",
        subject=subject.name if isinstance(subject, RdmaDevice) else address,
        takes=(WIRE,) if isinstance(subject, PciDevice) and not nics(node) else None,
    )


def _logged(node: Node, address: str) -> str:
    """The kernel log's line of this boot about a GPU that is gone; "" if nothing, or if there is no log.

    Source: open-gpu-kernel-modules src/nvidia/src/kernel/gpu/gpu.c, gpuSetDisconnectedProperties_IMPL(), and
    kernel-open/nvidia/os-interface.c for the form of the address."""
    log = if_missing(None, kernel_log.lines, node)
    slot = address.rpartition(".")[0]
    for line in reversed(log.lines if log else ()):
        if line.text.startswith(f"NVRM: Xid (PCI:{slot}") and "): 79," in line.text:
            node.cite(log.source if log else "", text=line.text, line=line.number)
            return "; Xid 79 in the kernel log"
        if line.text.startswith(f"NVRM: GPU {address}: GPU has fallen off the bus"):
            node.cite(log.source if log else "", text=line.text, line=line.number)
            return "; fallen off the bus, by the kernel log"
    return ""


def _asleep(node: Node, address: str) -> bool:
    """Whether the device has no power; False also where its power state is not known."""
    return if_missing("", lambda: node.text(f"{ROOT}/{address}/power_state").strip()) == ASLEEP
