"""The NVLink fabric of a board with NVSwitches, without which no CUDA program starts."""

from __future__ import annotations

from gdrkit.evidence import Confidence
from gdrkit.facts.commands import DMESG, NVIDIA_SMI
from gdrkit.facts.driver_log import since_driver_load
from gdrkit.facts.fabric_manager import manager_fault
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.gpu_chips import by_device_id
from gdrkit.facts.nvidia_smi import printed_field, smi_gpu, would_start
from gdrkit.facts.pci import NVIDIA, PciGpu, devices, gpus
from gdrkit.facts.probe import cuda_calls
from gdrkit.facts.virtual import virtual_machine
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_missing

SWITCH_CLASS = "0680"
"""pci.ids: "Bridge", as NVIDIA's NVSwitches of A100 (10de:1af1) and H100 (10de:22a3) report themselves.
Those of B200 and newer are not PCI functions of NVIDIA; there nvidia-smi shows the fabric."""
SWITCHES_SHOWN = (70, 80, 90)
SWITCHES_HIDDEN = (100, 103, 107)
"""Compute capabilities of the chips of NVSwitch boards: V100, A100 and H100; and GB100, GB110 and GR100, of
whose boards nvidia-smi alone shows the fabric. Source: NVIDIA Fabric Manager User Guide."""
SYSTEM_NOT_READY = 802
"""cuda.h, CUDA_ERROR_SYSTEM_NOT_READY: Fabric Manager has not set up the switches."""
_FATAL = regex(r"nvidia-nvswitch\d{1,3}: SXid \(PCI:[0-9a-fA-F:.]{7,20}\): \d{1,6}, Fatal,")
"""Source: NVIDIA Fabric Manager User Guide, fatal SXid errors; open-gpu-kernel-modules src/common/nvswitch/
kernel/inc/common_nvswitch.h."""


@fact
def has_switches(node: Node) -> bool:
    """Whether NVSwitches are on the PCI bus. False also where its devices are not known."""
    return any(
        one.vendor == NVIDIA and one.class_code.startswith(SWITCH_CLASS)
        for one in if_missing((), devices, node)
    )


@fact
def may_have_switches(node: Node) -> bool:
    """Whether the GPUs may be behind NVSwitches: more than one of them, with switches on the PCI bus, or of
    a chip that such boards have, where switches are not on this bus: in a virtual machine they are the
    host's, and those of B200 and newer are not PCI functions. True where the chip is not known."""
    found = if_missing((), gpus, node)
    if len(found) < 2 or has_switches(node):
        return len(found) > 1
    chips = {by_device_id(gpu.device_id) for gpu in found}
    if not chips.isdisjoint((None, *SWITCHES_HIDDEN)):
        return True
    return not chips.isdisjoint(SWITCHES_SHOWN) and if_missing("", virtual_machine, node) != "none"


@fact
def fabric_fault(node: Node, gpu: PciGpu) -> str:
    """What is wrong with the fabric of a GPU; "" if nothing is, or if it is in none.

    That of GPUs with NVLink-C2C, which spans hosts, is the subject of mnnvl-fabric-incomplete. Where
    nvidia-smi was not collected, no fault is likely, not certain."""
    if if_missing(False, is_coherent, node, gpu):
        return ""
    if _cuda_refuses(node):
        return f"cuInit returned {SYSTEM_NOT_READY}, SYSTEM_NOT_READY"
    if would_start(node) and not may_have_switches(node):
        return ""  # what nvidia-smi takes to start is not worth it
    smi = if_missing(None, smi_gpu, node, gpu.address)
    state = if_missing(None, printed_field, node, smi, "fabric_state") if smi else None
    if smi is not None and state is not None:
        status = smi.fabric_status or ""
        if "fabric_status" in smi.lines:
            node.mark(NVIDIA_SMI.line, smi.lines["fabric_status"])
        if state == "Completed" and status in ("Success", ""):
            return ""
        if smi.product_name is None:  # an excerpt: of a GPU with NVLink-C2C it would be the other fabric
            node.cite("NVLink fabric", text="no name of the GPU is shown", confidence=Confidence.LIKELY)
        return f"fabric state {state}{f', status {status}' if status else ''}"
    if not has_switches(node):
        return ""
    if smi is None:
        node.cite("NVLink fabric", text="nvidia-smi -q was not collected", confidence=Confidence.LIKELY)
    return manager_fault(node) or _by_log(node)


def _cuda_refuses(node: Node) -> bool:
    calls = if_missing((), cuda_calls, node)
    return any(one.call == "cuInit" and one.result == SYSTEM_NOT_READY for one in calls)


def _by_log(node: Node) -> str:
    """By the last fatal error of an NVSwitch since the driver was loaded. Whether the GPUs were reset since
    is not known."""
    for line in reversed(if_missing((), since_driver_load, node)):
        if _FATAL.match(line.text):
            node.cite(DMESG.line, text=line.text, line=line.number, confidence=Confidence.LIKELY)
            return line.text
    return ""
