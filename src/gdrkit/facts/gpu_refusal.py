"""GPUs that NVIDIA's driver does not use: refused by it, or excluded by the administrator."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.commands import DMESG
from gdrkit.facts.driver import driver_build, driver_flavour, gpu_information
from gdrkit.facts.driver_log import since_driver_load
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.gpu_chips import by_device_id
from gdrkit.facts.nvidia_smi import smi_gpu
from gdrkit.facts.pci import PciGpu, device_at, gpus, sysfs_devices
from gdrkit.facts.pci_registers import bar1_bytes
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing

GPUS = "proc/driver/nvidia/gpus"
"""A folder for each GPU that the driver's probe accepted: kernel-open/nvidia/nv-procfs.c."""
DRIVER = "nvidia"
NO_START = "RmInitAdapter failed"


@fact
def is_excluded(node: Node, gpu: PciGpu) -> bool:
    """Whether the driver is configured to leave the GPU alone, by NVreg_ExcludedGpus or NVreg_GpuBlacklist.

    Source: kernel-open/nvidia/nv-pci.c, nv_check_and_exclude_gpu(); nv-procfs.c, `GPU Excluded`."""
    return if_missing("", lambda: gpu_information(node, gpu.address).get("GPU Excluded")) == "Yes"


@fact
def refusal(node: Node, gpu: PciGpu) -> str:
    """How the driver refused a GPU; "" if it did not, or if it is not loaded.

    Raises EvidenceMissing if the driver's list of GPUs was not collected and neither the kernel log nor
    nvidia-smi shows whether it starts this one, and if no source shows the driver that holds it."""
    try:
        listed = if_absent(None, node.list, GPUS)
    except EvidenceMissing:
        if NO_START in _last_line(node, gpu):  # printed for a GPU that the list has
            return _failed_to_start(node, gpu)
        raise
    if listed is None:
        return ""
    if gpu.address in listed:
        return _failed_to_start(node, gpu)
    holder = if_missing(None, lambda: device_at(node, gpu.address).driver)
    if holder or not (_is_unbound(node, gpu) or _are_of_this_machine(node, listed)):
        return ""  # another driver holds it; or the list is that of a container, or only a part of it
    logged = _last_line(node, gpu)
    return f"no entry in /{GPUS}{f'; {logged}' if logged else ''}"


# -- why -----------------------------------------------------------------------------------------------


class Reason(enum.Enum):
    """Why the driver refuses a GPU, and nothing but what is named cures it."""

    OPEN = "it needs the open kernel modules, and the proprietary ones are loaded"
    PROPRIETARY = "the open kernel modules do not support it"
    BRANCH = "this release of the driver does not support it"
    WINDOW = "its memory window, BAR1, has no address"


_REASONS = (
    (regex(r"requires? use of the NVIDIA open kernel modules"), Reason.OPEN),
    (regex(r"not supported by open nvidia\.ko"), Reason.PROPRIETARY),
    (regex(r"not supported by the NVIDIA \S+ driver release"), Reason.BRANCH),
)
"""Source: open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osapi.c, rm_is_supported_device(); of
the proprietary modules, what their users report: NVIDIA/open-gpu-kernel-modules issue 862."""
_NAMES_A_GPU = regex(r"NVRM: (?:The NVIDIA )?GPU (?P<slot>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d)")
_NO_WINDOW = regex(r"NVRM: BAR1 is 0M @ 0x0 \(PCI:(?P<slot>[0-9a-f:.]{7,12})\)")
"""Source: open-gpu-kernel-modules kernel-open/nvidia/nv-pci.c, nv_pci_probe(): up to 525 it refuses the GPU
then, and from 535 on for BAR0 alone."""
FIRST_OPEN_ALONE = 100
"""The compute capability from which only the open modules support a GPU: Blackwell's. So it is with Grace
Hopper. Source: NVIDIA driver installation guide, "Open GPU kernel modules"."""


@fact
def refusal_reason(node: Node, gpu: PciGpu) -> Reason | None:
    """Why the driver refused a GPU; None where that is not known, or where it did not."""
    if not refusal(node, gpu):
        return None
    if (said := _said(node, gpu)) is not None:
        return said
    if _lacks_open_modules(node, gpu):
        return Reason.OPEN
    for line in if_missing((), since_driver_load, node):
        if (found := _NO_WINDOW.search(line.text)) and found["slot"] == gpu.address:
            node.cite(DMESG.line, text=line.text, line=line.number)
            return Reason.WINDOW
    has_window = if_missing(True, lambda: bool(if_absent(0, bar1_bytes, node, gpu.address)))
    return None if has_window else Reason.WINDOW


def _lacks_open_modules(node: Node, gpu: PciGpu) -> bool:
    """Whether the proprietary modules are loaded, and no release of them supports the GPU."""
    if if_missing("", driver_flavour, node) != "proprietary" or not _needs_open_modules(node, gpu):
        return False
    node.cite(f"chip of 10de:{gpu.device_id}", text="proprietary modules", confidence=Confidence.LIKELY)
    return True


def _needs_open_modules(node: Node, gpu: PciGpu) -> bool:
    by_chip = (by_device_id(gpu.device_id) or 0) >= FIRST_OPEN_ALONE
    return by_chip or if_missing(False, is_coherent, node, gpu)


def _gets_open_modules(node: Node, gpu: PciGpu) -> bool:
    """Whether a step replaces the modules that refused a GPU by those which support it."""
    ran = if_missing("", lambda: driver_build(node).flavour)
    if ran != "proprietary" or if_missing("", driver_flavour, node) != "open":
        return False
    return _needs_open_modules(node, gpu) or _said(node, gpu) is Reason.OPEN


def _said(node: Node, gpu: PciGpu) -> Reason | None:
    """What the driver's own messages name."""
    for number, text in _messages(node, gpu):
        for form, reason in _REASONS:
            if form.search(text):
                node.cite(DMESG.line, text=text, line=number)
                return reason
    return None


def _messages(node: Node, gpu: PciGpu) -> Iterator[tuple[int, str]]:
    """The driver's messages about a GPU, each with the lines that follow its first, without their mark."""
    number, parts = 0, list[str]()
    for line in if_missing((), since_driver_load, node):
        named = _NAMES_A_GPU.match(line.text)
        if named is not None or not line.text.startswith("NVRM: ") or len(parts) > 8:
            if parts:
                yield number, " ".join(parts)
            parts = [line.text] if named is not None and named["slot"] == gpu.address else []
            number = line.number
        elif parts:
            parts.append(line.text.removeprefix("NVRM: "))
    if parts:
        yield number, " ".join(parts)


def _is_unbound(node: Node, gpu: PciGpu) -> bool:
    """Whether the kernel shows that no driver holds the GPU; False also where sysfs was not collected."""
    found = if_missing((), sysfs_devices, node)
    return any(device.address == gpu.address and not device.driver for device in found)


def _are_of_this_machine(node: Node, listed: tuple[str, ...]) -> bool:
    """Whether other GPUs of the node are in the driver's list."""
    return any(gpu.address in listed for gpu in gpus(node))


def _failed_to_start(node: Node, gpu: PciGpu) -> str:
    """The last line about a GPU that could not be started since the driver was loaded; "" if it was started
    since, as far as nvidia-smi shows, or if there is no such line or no log.

    The driver starts a GPU anew for each program that opens it while no other has it open: osinit.c,
    RmInitAdapter()."""
    logged = _last_line(node, gpu)
    if _gets_open_modules(node, gpu):
        node.cite(f"open modules for {gpu.address}", text="supported", confidence=Confidence.LIKELY)
        return ""
    unsupported = _lacks_open_modules(node, gpu)
    if NO_START not in logged and not unsupported:
        return ""
    try:
        if smi_gpu(node, gpu.address).framebuffer_mib is not None:
            return ""
    except EvidenceMissing:
        node.cite("nvidia-smi -q", text="not collected, or does not show it", confidence=Confidence.LIKELY)
    if unsupported:
        return f"{Reason.OPEN.value}; {logged}" if logged else Reason.OPEN.value
    return logged


def _last_line(node: Node, gpu: PciGpu) -> str:
    """The driver's last message about a GPU that it could not start, since it was loaded; "" without one."""
    for line in reversed(if_missing((), since_driver_load, node)):
        about = line.text.startswith((f"NVRM: GPU {gpu.address}", f"NVRM: The NVIDIA GPU {gpu.address}"))
        if about and (NO_START in line.text or "The NVIDIA GPU" in line.text):
            node.cite(DMESG.line, text=line.text, line=line.number)
            return line.text
    return ""
