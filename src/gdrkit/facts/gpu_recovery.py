"""What a GPU needs before a program can use it again: by nvidia-smi, which shows it as it is now, else by
the kernel log of this boot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.evidence.quoting import quoted
from gdrkit.facts import kernel_log
from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.driver_log import since_driver_load
from gdrkit.facts.expectation import expectation
from gdrkit.facts.kernel_log import KernelLogLine
from gdrkit.facts.pci import NVIDIA, PciGpu, devices
from gdrkit.facts.supplied import not_collected
from gdrkit.facts.xids import ACTIONS, OFF_THE_BUS, NeededRecovery, Recovery, Xid, needed, parse
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_missing

_FOUND_AGAIN = regex(
    rf"pci (?P<slot>[0-9a-f]{{4}}:[0-9a-f]{{2}}:[0-9a-f]{{2}})\.0: \[{NVIDIA}:[0-9a-f]{{4}}\] type 00"
)
"""Printed for each function that a scan of the bus finds: Linux drivers/pci/probe.c, pci_setup_device()."""
_OFF_THE_BUS = regex(
    r"NVRM: GPU (?P<slot>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]: GPU has fallen off the bus"
)
"""Beside Xid 79: src/nvidia/arch/nvalloc/unix/src/osinit.c, osHandleGpuLost()."""


@fact
def xids(node: Node) -> Mapping[str, tuple[Xid, ...]]:
    """The Xids of this boot by slot, oldest first. A driver that starts again, and a GPU that the bus finds
    again, leave the former ones behind."""
    return by_slot(since_driver_load(node))


def by_slot(lines: Iterable[KernelLogLine]) -> Mapping[str, tuple[Xid, ...]]:
    """The Xids in messages of the kernel, by slot."""
    found: dict[str, list[Xid]] = {}
    for line in lines:
        if again := _FOUND_AGAIN.match(line.text):
            found.pop(again["slot"], None)
        elif off := _OFF_THE_BUS.match(line.text):
            found.setdefault(off["slot"], []).append(Xid(off["slot"], OFF_THE_BUS, line.text, line.number))
        elif xid := parse(line.text, line.number):
            found.setdefault(xid.slot, []).append(xid)
    return {slot: tuple(some) for slot, some in found.items()}


@fact
def recovery(node: Node, address: str) -> NeededRecovery | None:
    """What a GPU needs; None if it needs nothing.

    Raises EvidenceMissing if neither nvidia-smi nor the kernel log shows it."""
    from gdrkit.facts.nvidia_smi import would_start

    if would_start(node) and _has_clean_log(node):
        return None
    try:
        return _by_smi(node, address)
    except EvidenceMissing:
        return _by_log(node, address)


def _has_clean_log(node: Node) -> bool:
    """Whether the kernel log is whole, and has no error of any GPU."""
    log = if_missing(None, kernel_log.lines, node)
    return log is not None and log.complete and not xids(node)


def _by_smi(node: Node, address: str) -> NeededRecovery | None:
    """By `nvidia-smi -q`. Raises EvidenceMissing where it does not print what the GPU needs."""
    from gdrkit.facts.nvidia_smi import smi_gpu, without_handle

    refused = without_handle(node.run(NVIDIA_SMI)).get(address)
    if refused is not None:
        node.mark(NVIDIA_SMI.line, refused[1])
        return NeededRecovery(_by_words(refused[0]), f"nvidia-smi: {refused[0]}")
    shown = smi_gpu(node, address)
    for name in ("trouble", "recovery_action", "reset_required", "drain_recommended"):
        if value := getattr(shown, name):
            node.mark(NVIDIA_SMI.line, shown.lines[name], shown.lines["address"])
            need = _by_field(name, value)
            if need is not None:
                return need
    if shown.recovery_action is None and shown.reset_required is None:
        raise not_collected(f"GPU Recovery Action of {address}", f"nvidia-smi -q -i {quoted(address)}")
    return None


def _by_field(name: str, value: str) -> NeededRecovery | None:
    """What one field of nvidia-smi says that the GPU needs."""
    match name:
        case "trouble":
            return NeededRecovery(_by_words(value), f"nvidia-smi: {value}")
        case "recovery_action":
            action = ACTIONS.get(value.lower(), Recovery.RESET)  # of a newer driver: some action is needed
            named = NeededRecovery(action, f"GPU Recovery Action {value}")
            return None if action is Recovery.NONE else named
        case "reset_required":
            return NeededRecovery(Recovery.RESET, "Reset Required Yes") if value == "Yes" else None
        case _:
            drained = NeededRecovery(Recovery.DRAIN_AND_RESET, "Drain and Reset Recommended Yes")
            return drained if value == "Yes" else None


def _by_words(reason: str) -> Recovery:
    """What NVML's error calls for: only a reset that it asks for by name is known to be enough."""
    return Recovery.RESET if re.search(r"requires (?:a )?re(?:set|start)", reason) else Recovery.REBOOT


def _has_framebuffer(node: Node, address: str) -> bool:
    from gdrkit.facts.nvidia_smi import smi_gpu

    return bool(if_missing(None, lambda: smi_gpu(node, address).framebuffer_mib))


def _by_log(node: Node, address: str) -> NeededRecovery | None:
    """By the kernel log. `nvidia-smi --gpu-reset` leaves no line there, so a reset is likely still needed;
    only a reboot, which ends the log, is certain."""
    found = needed(xids(node).get(slot_of(address), ()))
    if found is None:
        return None
    need, xid = found
    if xid.number == OFF_THE_BUS and _has_framebuffer(node, address):
        return None  # nvidia-smi reads it, so it came back
    surely = need.recovery is Recovery.REBOOT
    node.cite(
        kernel_log.lines(node).source,
        text=xid.text,
        line=xid.line,
        confidence=Confidence.CERTAIN if surely else Confidence.LIKELY,
    )
    return need


def is_cured_by_reset(node: Node, gpu: PciGpu) -> bool:
    """Whether a GPU is known to need something, and no more than a reset."""
    need = if_missing(None, recovery, node, gpu.address)
    return need is not None and need.recovery is not Recovery.REBOOT


def slot_of(address: str) -> str:
    """The slot of a function, as Xids name GPUs."""
    return address.rpartition(".")[0]


@fact
def lost_gpus(node: Node) -> tuple[PciGpu, ...]:
    """GPUs that fell off the bus in this boot and are not listed any more.

    () where the user says how many GPUs there are."""
    wanted = expectation(node).content
    if wanted.gpus is not None or wanted.gpu_models or wanted.rails:
        return ()
    there = {slot_of(device.address) for device in if_missing((), devices, node)}
    logged = if_missing({}, xids, node)
    off = (slot for slot, some in logged.items() if any(xid.number == OFF_THE_BUS for xid in some))
    return tuple(PciGpu(f"{slot}.0") for slot in sorted(off) if there and slot not in there)


@fact
def came_back(node: Node, address: str) -> bool:
    """Whether a GPU that fell off the bus is listed again: no, as long as nothing was done."""
    return slot_of(address) in {slot_of(device.address) for device in devices(node)}
