"""The NVIDIA kernel driver is not loaded."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver import DRIVER, driver_path
from gdrkit.facts.kernel import release
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci import gpus
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import DRIVER_VERSION, DecidingCommand
from gdrkit.rules.gpu_passed_through import all_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    FABRIC,
    CauseTrait,
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
    "driver-not-loaded",
    Layer.DRIVER,
    per=the_node,
    takes=(*GPU_MEMORY, FABRIC),
    traits=(CauseTrait.NOT_LOADED,),
    reported_by=(DecidingCommand(DRIVER_VERSION, "`No such file or directory`"),),
    remedies=(RemedyName.BUILD_DRIVER_FOR_KERNEL, RemedyName.LOAD_DRIVER),
    settled_by=SettledBy.DRIVER,
    cost="No program can use the GPU at all.",
    references=("https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/",),
)
def driver_not_loaded(node: Node, _: str) -> Outcome:
    """The module nvidia is not loaded, so there is no GPU memory to register.

    Cost: No path works, direct or staged.

    How to tell: `grep '^nvidia ' /proc/modules` prints nothing, and /proc/driver/nvidia does not exist.
    `nvidia-smi` says that it couldn't communicate with the NVIDIA driver.

    What to do: Find the reason first: `gdr modprobe nvidia` predicts what loading the module would print.
    Then install the driver's modules for the running kernel, or load them with `sudo modprobe nvidia`.

    Why: No driver is installed for this kernel (most often after a kernel update), its modules are refused
    (another finding then says why), the driver runs in a container that has not started, or nouveau holds
    the GPU.

    Source: Linux proc(5), /proc/modules; open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c.
    """
    if is_loaded(node, DRIVER):
        return Passed("nvidia is loaded")
    found = if_missing(None, gpus, node)  # if that is not known, a missing driver is still worth reporting
    if found is not None and not found:
        return NotApplicable("no NVIDIA GPU")
    if all_passed_through(node):
        return NotApplicable("every GPU belongs to a virtual machine")
    if is_loaded_for_sure(node, "nouveau"):
        return Failed(seen="nouveau is loaded, nvidia is not", expected="nvidia loaded", subject=DRIVER)
    try:
        on_disk, advice = f"its file is {driver_path(node)}", ""
    except EvidenceMissing as error:
        on_disk = f"no module file ({error.missing.why})"
        absent = error.missing.why is MissingReason.ABSENT and not if_missing(True, has_gpu_operator, node)
        advice = _install_it(node) if absent else ""
    return Failed(
        seen=f"nvidia is not loaded; {on_disk}", expected="nvidia loaded", subject=DRIVER, advice=advice
    )


def _install_it(node: Node) -> str:
    return (
        f"Linux {release(node)} has no modules of NVIDIA's driver. Install the driver's package for this "
        "kernel; with DKMS, install the kernel's headers and run `sudo dkms autoinstall`. Then run "
        "`sudo modprobe nvidia`. If the kernel was updated, the former one still has them: boot it."
    )
