"""GPUs that NVIDIA's driver does not use: refused by it, or excluded by the administrator."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.driver import gpu_information
from gdrkit.facts.gpu_refusal import Reason, is_excluded, refusal, refusal_reason
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.virtual import virtual_machine
from gdrkit.node import Node, if_missing, lacking
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import GPU, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule


@rule(
    "gpu-refused-by-driver",
    Layer.HARDWARE,
    per=gpus,
    takes=(GPU,),
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand("ls /proc/driver/nvidia/gpus", "an address less than `lspci -d 10de:`"),
        DecidingCommand("sudo dmesg | grep NVRM", "`probe routine failed` or `RmInitAdapter failed`"),
    ),
    remedies=(RemedyName.OPEN_KERNEL_MODULES, RemedyName.POWER_CYCLE),
    cost="No program can use the GPU; the others work.",
    references=("https://docs.nvidia.com/deploy/gpu-debug-guidelines/",),
)
def gpu_refused_by_driver(node: Node, gpu: PciGpu) -> Outcome:
    """NVIDIA's driver is loaded and could not start this GPU.

    Cost: No program can use the GPU. `nvidia-smi` lists fewer GPUs than `lspci`, or fails for this one.

    How to tell: /proc/driver/nvidia/gpus has no folder for the GPU, `lspci -k` shows no driver in use for
    it, and `sudo dmesg | grep NVRM` prints `The NVIDIA probe routine failed for 1 device(s)`. Or it has one,
    and the log prints `RmInitAdapter failed!` for it whenever a program opens it.

    What to do: Read the NVRM lines of the GPU in the kernel log: they name the reason. If the driver does
    not support the GPU, install a branch and flavour that does: Blackwell and Grace Hopper need the open
    modules. If `BAR1 is 0M`, turn on Above 4G Decoding, or give the virtual machine a larger window for
    device memory. Otherwise drain the node and restart it; if that does not help, switch the machine off and
    remove its power. A GPU that fails again needs service: attach the output of
    `sudo nvidia-bug-report.sh`.

    Why: The GPU did not answer or its firmware did not start, its memory windows were not placed by the
    firmware of the machine, its power cable is loose, or the driver does not support it. Without an address
    for BAR1, releases before 535 refuse the GPU at once.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv.c, nv_module_init(); nv-procfs.c;
    src/nvidia/arch/nvalloc/unix/src/osinit.c, RmInitAdapter().
    """
    if is_passed_through(node, gpu):
        return NotApplicable("it belongs to a virtual machine")
    if is_excluded(node, gpu):
        return NotApplicable("the driver leaves it alone, as configured")
    try:
        refused = refusal(node, gpu)
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.STALE:  # a step was taken: whether it helped is not known
            raise
        return Passed("no refusal is shown", lacking=(error.missing,))
    if not refused:
        return Passed("not refused")
    reason = refusal_reason(node, gpu)
    known = reason is not None and reason.value not in refused
    return Failed(
        seen=f"{reason.value}; {refused}" if reason is not None and known else refused,
        expected="a GPU that the driver started",
        subject=gpu.address,
        advice=_advice(node, reason),
    )


_ADVICE = {
    Reason.OPEN: "Replace the proprietary kernel modules by the open ones of the same release, and reboot: "
    "no proprietary release supports this GPU. The GPU is not at fault.",
    Reason.PROPRIETARY: "Replace the open kernel modules by the proprietary ones of the same release, and "
    "reboot. With those, only nvidia-peermem gives a direct path.",
    Reason.BRANCH: "Install a release of the driver that supports this GPU: its README lists them. The GPU "
    "is not at fault.",
    Reason.WINDOW: "Turn on Above 4G Decoding in the firmware setup, and reboot. The GPU is not at fault.",
}
_WINDOW_IN_GUEST = (
    "Give the virtual machine a larger window for device memory, from outside: on VMware UEFI firmware, "
    "`pciPassthru.use64bitMMIO=TRUE` and `pciPassthru.64bitMMIOSizeGB` above the sum of all BAR1; with QEMU "
    "UEFI firmware and a larger 64-bit PCI hole. Then stop it and start it again. The GPU is not at fault."
)


def _advice(node: Node, reason: Reason | None) -> str:
    """What cures a refusal of which the reason is known; "" for that on the page."""
    if reason is Reason.WINDOW and if_missing("none", virtual_machine, node) != "none":
        return _WINDOW_IN_GUEST
    return _ADVICE.get(reason, "") if reason is not None else ""


@rule(
    "gpu-excluded",
    Layer.HARDWARE,
    per=gpus,
    takes=(GPU,),
    permanent=(GPU,),
    reported_by=(
        DecidingCommand("grep Excluded /proc/driver/nvidia/gpus/*/information", "`GPU Excluded: Yes`"),
    ),
    cost="No program of this machine can use the GPU.",
)
def gpu_excluded(node: Node, gpu: PciGpu) -> Outcome:
    """The administrator excluded the GPU: it is on the list that NVIDIA's driver leaves alone.

    Cost: None, if that is intended. The other GPUs are not affected.

    How to tell: /proc/driver/nvidia/gpus/<address>/information has `GPU Excluded: Yes`.

    What to do: Nothing, if the GPU is meant to be left out, for example until it is replaced. To use it,
    remove its UUID from `NVreg_ExcludedGpus` (before R450 `NVreg_GpuBlacklist`) in /etc/modprobe.d and on
    the kernel command line, then restart.

    Why: Administrators exclude a faulty GPU so that jobs run on the others, or a display card.

    Source: open-gpu-kernel-modules kernel-open/nvidia/nv-reg.h, ExcludedGpus; nv-procfs.c.
    """
    if is_excluded(node, gpu):
        return Failed(seen="GPU Excluded: Yes", expected="GPU Excluded: No", subject=gpu.address)
    return Passed("not excluded", lacking=lacking(gpu_information, node, gpu.address))
