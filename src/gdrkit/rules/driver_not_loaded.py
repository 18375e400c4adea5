"""The NVIDIA kernel driver is not loaded."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver import DRIVER, driver_path
from gdrkit.facts.kernel import release
from gdrkit.facts.kubernetes import has_operator_driver, operator_namespace
from gdrkit.facts.machine import distribution
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
    Then load it with `sudo modprobe nvidia`; or, if there is none for the running kernel, install it. With
    the GPU Operator, look at its driver container instead:
    `kubectl -n gpu-operator logs -l app=nvidia-driver-daemonset -c nvidia-driver-ctr`.

    Why: No driver is installed for this kernel (most often after a kernel update), its modules are refused
    (another finding then says why), the driver runs in a container that has not started, or nouveau holds
    the GPU.

    Source: Linux proc(5), /proc/modules; open-gpu-kernel-modules kernel-open/nvidia/nv-procfs.c;
    gpu-operator assets/state-driver; container-engine-accelerators nvidia-driver-installer.
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
        absent = error.missing.why is MissingReason.ABSENT and not if_missing(
            True, has_operator_driver, node
        )
        advice = _install_it(node) if absent else ""
    return Failed(
        seen=f"nvidia is not loaded; {on_disk}",
        expected="nvidia loaded",
        subject=DRIVER,
        advice=if_missing("", _what_loads_it, node) or advice,
    )


_BY_SYSTEM = {
    "talos": "Talos loads nvidia where machine.kernel.modules lists it and its image has the system "
    "extension: `talosctl -n NODE get extensions` and `talosctl -n NODE dmesg` show what is missing.",
    "bottlerocket": "An image of Bottlerocket whose variant ends in -nvidia loads nvidia at boot: "
    "`apiclient get os` shows the variant, and the kernel's log why it failed.",
    "cos": "On GKE a pod in kube-system brings the driver and loads it: `kubectl -n kube-system get pods -o "
    "wide | grep nvidia` lists that of this node, and its log says why it failed.",
}
"""Where no person loads the driver, by ID in os-release(5): what does, and what to look at."""


def _what_loads_it(node: Node) -> str:
    """What to look at where a container or the image of the system loads the driver; "" where a person or
    the boot does."""
    if has_operator_driver(node):
        pods = f"kubectl -n {operator_namespace(node)} {{}} -l app=nvidia-driver-daemonset"
        return (
            "The GPU Operator's driver container brings nvidia and loads it: "
            f"`{pods.format('get pods')} -o wide` shows its pod on this node, and "
            f"`{pods.format('logs')} -c nvidia-driver-ctr --tail=50` why it has not."
        )
    return next((words for name, words in _BY_SYSTEM.items() if name in distribution(node).systems), "")


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
