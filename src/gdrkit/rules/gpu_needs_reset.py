"""GPUs that an error left unusable until they are reset or the machine is restarted."""

from __future__ import annotations

from gdrkit.evidence import EvidenceMissing, MissingReason
from gdrkit.facts.gpu_recovery import recovery
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.facts.xids import Recovery
from gdrkit.node import Node
from gdrkit.rules.deciding_command import NVIDIA_SMI, DecidingCommand
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import GPU, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule


@rule(
    "gpu-needs-reset",
    Layer.HARDWARE,
    per=gpus,
    takes=(GPU,),
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(NVIDIA_SMI, "a `GPU Recovery Action` other than None"),
        DecidingCommand("sudo dmesg | grep Xid", "an Xid such as 48, 79, 95, 119 or 154 of this GPU"),
    ),
    remedies=(RemedyName.RESET_GPU, RemedyName.POWER_CYCLE),
    cost="No program can use the GPU, and jobs that were using it fail or hang.",
    references=(
        "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        "https://docs.nvidia.com/deploy/gpu-debug-guidelines/",
    ),
)
def gpu_needs_reset(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU had an error that leaves it unusable until it is reset, or the machine is restarted.

    Cost: New programs cannot use the GPU, and a NIC cannot reach its memory. Programs that were running on
    it fail or hang, and with them the job on all its other nodes.

    How to tell: `nvidia-smi -q` prints a `GPU Recovery Action` other than None, in drivers before R565
    `Reset Required: Yes`; or it prints `GPU requires reset`, `GPU is lost` or `Unable to determine the
    device handle` in place of the GPU. `sudo dmesg | grep Xid` shows an Xid of this boot such as 48 (memory
    error), 64, 95, 119 or 120 (the GPU's own processor), 79 (fallen off the bus), 140 or 143. Xid 154 names
    the action. Other Xids, such as 13, 31, 43, 45 and 94, end a process and leave the GPU usable.

    What to do: In a cluster, drain the node first. For a reset, stop everything that uses the GPU, and run
    `sudo nvidia-smi --gpu-reset -i <address>`; if that fails, if the GPU needs a reboot, or if `nvidia-smi`
    does not list it, as after Xid 79, restart the machine. On boards with NVSwitches before Hopper, all GPUs
    are reset together, without `-i`. If the error comes again, look at the GPU's power supply, cooling, slot
    and riser, run NVIDIA's field diagnostic, and attach the output of `sudo nvidia-bug-report.sh` to the
    ticket.

    Why: The driver marks a GPU whose memory or firmware it can no longer trust, and refuses new work on it.
    `nvidia-smi` shows whether it still is marked. The kernel log has no line about a reset, so an old Xid
    counts until the driver starts again or nvidia-smi shows that nothing is needed.

    Source: NVIDIA, Analyzing Xid Errors with the Xid Catalog; nvidia-smi(1), GPU Recovery Action;
    open-gpu-kernel-modules src/nvidia/src/kernel/gpu/gpu.c, gpuRefreshRecoveryAction().
    """
    if is_passed_through(node, gpu):
        return NotApplicable("it belongs to a virtual machine")
    try:
        need = recovery(node, gpu.address)
    except EvidenceMissing as error:
        if error.missing.why is MissingReason.STALE:  # a step was taken: whether it helped is not known
            raise
        # Neither is there for ordinary users and in most folders; a GPU is not suspected for that.
        return Passed("no error is shown", lacking=(error.missing,))
    if need is None:
        return Passed("no error that needs a reset")
    return Failed(
        seen=f"{need.seen}: it needs {need.recovery}",
        expected="no error",
        subject=gpu.address,
        advice=_RESTART if need.recovery is Recovery.REBOOT else "",
    )


_RESTART = (
    "Restart the machine (in a cluster, drain it first): a reset does not bring this GPU back. If a restart "
    "does not either, "
    "remove the power of the whole machine for a minute; if the GPU stays away, it needs service."
)
