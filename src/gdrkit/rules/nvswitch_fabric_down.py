"""Boards whose NVSwitches are not set up."""

from __future__ import annotations

from gdrkit.facts.commands import NVIDIA_SMI
from gdrkit.facts.driver import driver_version
from gdrkit.facts.fabric_manager import other_fabric_manager
from gdrkit.facts.gpu import is_coherent
from gdrkit.facts.nvidia_smi import would_start
from gdrkit.facts.nvswitch import fabric_fault, may_have_switches
from gdrkit.facts.pci import PciGpu, gpus
from gdrkit.node import Node, if_missing, lacking
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.gpu_passed_through import is_passed_through
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import GPU, Failed, Layer, NotApplicable, Outcome, Passed, Status, rule


@rule(
    "nvswitch-fabric-down",
    Layer.HARDWARE,
    per=gpus,
    takes=(GPU,),
    default_status=Status.WARNING,
    reported_by=(
        DecidingCommand(
            "nvidia-smi -q | grep -A 2 Fabric", "a State other than Completed, or a failed Status"
        ),
        DecidingCommand("systemctl status nvidia-fabricmanager", "anything but `active (running)`"),
    ),
    remedies=(RemedyName.START_FABRIC_MANAGER, RemedyName.POWER_CYCLE),
    cost="No CUDA program starts on the GPU, whatever the NIC does.",
    references=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/",),
)
def nvswitch_fabric_down(node: Node, gpu: PciGpu) -> Outcome:
    """The NVSwitches of the board are not set up for this GPU, so no CUDA program starts on it.

    Cost: CUDA returns error 802, `system not yet initialized`, for every program.

    How to tell: `nvidia-smi -q` prints, under Fabric, a State other than Completed, or a Status other than
    Success. On A100, where it prints N/A, `systemctl status nvidia-fabricmanager` is not `active`.

    What to do: Look at `systemctl status nvidia-fabricmanager`. If it is inactive, start it with `sudo
    systemctl enable --now nvidia-fabricmanager`. If it failed, the status and /var/log/fabricmanager.log say
    why: its version must be exactly that of the driver (`nv-fabricmanager --version`, `cat
    /proc/driver/nvidia/version`), and on B200 and newer it needs nvlsm and ib_umad. After a fatal SXid in
    the kernel log, reset all GPUs together or restart the node. In a virtual machine, Fabric Manager runs on
    the host or in a service machine; the trays of GB200 and GB300 have none (mnnvl-fabric-incomplete).

    Why: Fabric Manager programs the switches at each start and tells every GPU. It is not installed, not
    started, of another version than the driver, or a switch or link is broken.

    Source: NVIDIA Fabric Manager User Guide; nvml.h, nvmlGpuFabricInfo_t; cuda.h, error 802.
    """
    if is_passed_through(node, gpu):
        return NotApplicable("it belongs to a virtual machine")
    if if_missing(False, is_coherent, node, gpu):
        return NotApplicable("mnnvl-fabric-incomplete judges the fabric of GPUs with NVLink-C2C")
    fault = fabric_fault(node, gpu)
    if fault:
        other = other_fabric_manager(node)
        driver = driver_version(node) if other else ""
        return Failed(
            seen=f"{fault}; Fabric Manager is {other}, the driver {driver}" if other else fault,
            expected="fabric state Completed, status Success",
            subject=gpu.address,
            advice=f"Install nvidia-fabricmanager {driver}, exactly the version of the driver, then "
            "`sudo systemctl restart nvidia-fabricmanager`. No reboot is needed."
            if other
            else "",
        )
    asked = len(gpus(node)) > 1 and (may_have_switches(node) or not would_start(node))
    needed = lacking(node.run, NVIDIA_SMI) if asked else ()
    return Passed("no fault of an NVLink fabric", lacking=needed)
