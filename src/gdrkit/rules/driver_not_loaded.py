"""The NVIDIA kernel driver is not loaded."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver import DRIVER, driver_path
from gdrkit.facts.kernel import release
from gdrkit.facts.kubernetes import has_gpu_operator
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.pci import device_at, gpus
from gdrkit.facts.running_files import is_loaded_for_sure
from gdrkit.node import Node, each_known, if_missing
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import DRIVER_VERSION, DecidingCommand
from gdrkit.rules.gpu_passed_through import VFIO, all_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    FABRIC,
    GPU,
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

_RELEASE_IT = (
    "`gdr fix --steps release-gpu` prints the commands that blacklist {holder} and renew the initramfs; "
    "with --apply it runs them. Then reboot: until then modprobe fails for nvidia with `No such device`."
)


@rule(
    "driver-not-loaded",
    Layer.DRIVER,
    per=the_node,
    takes=(GPU, *GPU_MEMORY, FABRIC),
    traits=(CauseTrait.NOT_LOADED,),
    reported_by=(DecidingCommand(DRIVER_VERSION, "`No such file or directory`"),),
    remedies=(RemedyName.BUILD_DRIVER_FOR_KERNEL, RemedyName.RELEASE_GPU, RemedyName.LOAD_DRIVER),
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
    Then load it with `sudo modprobe nvidia`; or, if there is none for the running kernel, install it.

    Why: No driver is installed for this kernel (most often after a kernel update), its modules are refused
    (another finding then says why), the driver runs in a container that has not started, or nouveau holds
    the GPU.

    Source: Linux proc(5), /proc/modules; open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c.
    """
    if is_loaded(node, DRIVER):
        return Passed("nvidia is loaded")
    if not gpus(node):  # a storage node needs no driver: where its GPUs are not known, neither is this
        return NotApplicable("no NVIDIA GPU")
    if all_passed_through(node):
        return NotApplicable("every GPU belongs to a virtual machine")
    if holder := other_holder(node):
        return Failed(
            seen=f"{holder} holds the GPU, nvidia is not loaded",
            expected="nvidia loaded",
            subject=DRIVER,
            advice=_RELEASE_IT.format(holder=holder),
        )
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


def other_holder(node: Node) -> str:
    """The driver that holds GPUs of this machine in NVIDIA's place, such as nouveau; "" if none is known.

    Another module cannot take them over: open-gpu-kernel-modules kernel-open/nvidia/nv.c, which then logs
    `The NVIDIA probe routine was not called for 1 device(s)` and returns ENODEV.
    """
    found = if_missing((), gpus, node)
    holders = each_known(lambda gpu: device_at(node, gpu.address).driver, found)
    return next((name for name in holders if name not in ("", DRIVER, VFIO)), "")


def _install_it(node: Node) -> str:
    return (
        f"Linux {release(node)} has no modules of NVIDIA's driver. Install the driver's package for this "
        "kernel; with DKMS, install the kernel's headers and run `sudo dkms autoinstall`. Then run "
        "`sudo modprobe nvidia`. If the kernel was updated, the former one still has them: boot it."
    )
