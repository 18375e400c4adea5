"""Parts of the NVIDIA driver that have different versions."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.facts.driver import disk_driver_version, driver_version
from gdrkit.facts.libraries import libcuda_version, libibverbs
from gdrkit.node import Node, if_absent, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import DRIVER_VERSION, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    FABRIC,
    GPU,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    SettledBy,
    rule,
    the_node,
)


@rule(
    "driver-mismatch",
    Layer.DRIVER,
    per=the_node,
    takes=(*GPU_MEMORY, FABRIC),
    reported_by=(DecidingCommand(DRIVER_VERSION, "a version other than that of the libraries"),),
    remedies=(RemedyName.REBOOT,),
    settled_by=SettledBy.DRIVER,
    cost="CUDA refuses to start until the module and the libraries have one version.",
    references=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
)
def driver_mismatch(node: Node, _: str) -> Outcome:
    """The loaded driver, its module files on disk and its libraries do not have the same version.

    Cost: If the libraries have another version, no program can open the GPU. If the module files on disk
    have another version, nvidia-peermem may be refused
    (`disagrees about version of symbol nvidia_p2p_get_pages`).

    How to tell: `cat /sys/module/nvidia/version` and `modinfo -F version nvidia` print different versions,
    or the file that libcuda.so.1 links to has another version in its name. `nvidia-smi` prints
    `Failed to initialize NVML: Driver/library version mismatch`; the kernel log says `NVRM: API mismatch`.

    What to do: Reboot, or unload every nvidia module and load them again. After a GPU Operator update,
    delete the driver pod.

    Why: The driver was updated but not reloaded. The old module stays in the kernel until it is unloaded or
    the node reboots.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv.c and src/nvidia/arch/nvalloc/unix/src/escape.c,
    NV_ESC_CHECK_VERSION_STR; modinfo(8).
    """
    try:
        loaded = driver_version(node)
    except EvidenceAbsent:
        return NotApplicable("no NVIDIA driver is loaded")
    libraries = _libraries(node)
    if libraries not in ("", loaded):
        return Failed(
            seen=f"module {loaded}, libcuda {libraries}",
            expected="one version",
            subject="libcuda",
            takes=(
                GPU,
                *GPU_MEMORY,
                FABRIC,
            ),  # libraries that were not collected are not suspected of so much
        )
    # The loaded module works without its file; the file on disk matters at the next boot.
    on_disk = if_missing("", disk_driver_version, node)
    if on_disk not in ("", loaded):
        return Failed(
            seen=f"loaded {loaded}, on disk {on_disk}",
            expected="one version",
            subject="nvidia",
            cost="The next module to be loaded may be refused; the next boot changes the version.",
            takes=(),
        )
    return Passed(f"all {loaded}" if libraries or on_disk else f"{loaded} is loaded")


def _libraries(node: Node) -> str:
    """The version of user space; "" if there is none, as on nodes whose images bring it.

    Distributions install libcuda beside libibverbs, so it is enough if that folder was listed. If no
    library was collected at all, the rule about libibverbs reports that.
    """
    try:
        return if_absent("", libcuda_version, node)
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.NOT_COLLECTED:
            raise
        reason = error.fresh()
    library = if_missing(None, libibverbs, node)
    if library and _may_be_there(node, f"{library.path.rpartition('/')[0]}/libcuda.so.1"):
        raise reason.fresh()
    return ""


def _may_be_there(node: Node, path: str) -> bool:
    """Whether a file exists or may exist: True also if that was not collected."""
    return if_missing(True, node.exists, path)
