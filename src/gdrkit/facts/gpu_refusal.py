"""GPUs that NVIDIA's driver does not use: refused by it, or excluded by the administrator."""

from __future__ import annotations

from gdrkit.evidence import Confidence, EvidenceMissing
from gdrkit.facts.commands import DMESG
from gdrkit.facts.driver import gpu_information
from gdrkit.facts.driver_log import since_driver_load
from gdrkit.facts.nvidia_smi import smi_gpu
from gdrkit.facts.pci import PciGpu, device_at, gpus, sysfs_devices
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
    if NO_START not in logged:
        return ""
    try:
        if smi_gpu(node, gpu.address).framebuffer_mib is not None:
            return ""
    except EvidenceMissing:
        node.cite("nvidia-smi -q", text="not collected, or does not show it", confidence=Confidence.LIKELY)
    return logged


def _last_line(node: Node, gpu: PciGpu) -> str:
    """The driver's last message about a GPU that it could not start, since it was loaded; "" without one."""
    for line in reversed(if_missing((), since_driver_load, node)):
        about = line.text.startswith((f"NVRM: GPU {gpu.address}", f"NVRM: The NVIDIA GPU {gpu.address}"))
        if about and (NO_START in line.text or "The NVIDIA GPU" in line.text):
            node.cite(DMESG.line, text=line.text, line=line.number)
            return line.text
    return ""
