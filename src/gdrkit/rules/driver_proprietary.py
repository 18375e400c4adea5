"""NVIDIA's proprietary kernel modules, which do not support dma-buf."""

from __future__ import annotations

from gdrkit.evidence import EvidenceAbsent
from gdrkit.facts.driver import disk_driver_flavour, driver_flavour
from gdrkit.facts.driver_files import has_driver_container
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DRIVER_VERSION, DecidingCommand
from gdrkit.rules.remedy_names import RemedyName
from gdrkit.rules.rule import (
    DMABUF,
    Failed,
    Layer,
    NotApplicable,
    Outcome,
    Passed,
    SettledBy,
    rule,
    the_node,
)

_BY_OPERATOR = (
    "The GPU Operator's container brings the driver: set `driver.kernelModuleType=open` in its "
    "ClusterPolicy, for GPUs of Turing and newer. `gdr config gpu-operator` writes the patch."
)


@rule(
    "driver-proprietary",
    Layer.DRIVER,
    per=the_node,
    takes=(DMABUF,),
    reported_by=(DecidingCommand(DRIVER_VERSION, "no `Open Kernel Module`"),),
    remedies=(RemedyName.REBOOT, RemedyName.OPEN_KERNEL_MODULES),
    settled_by=SettledBy.DRIVER,
    cost="Only nvidia-peermem can be used, which needs an RDMA stack with the peer-memory API.",
    references=(
        "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html",
    ),
)
def driver_proprietary(node: Node, _: str) -> Outcome:
    """The NVIDIA driver is the proprietary one, which does not export GPU memory as dma-buf.

    Cost: dma-buf is not available. nvidia-peermem works with either kind of module.

    How to tell: `cat /proc/driver/nvidia/version` prints `NVIDIA UNIX x86_64 Kernel Module`, without the
    word Open. `modinfo -F license nvidia` prints NVIDIA. /proc/modules shows the taint P. CUDA attribute
    124 (DMA_BUF_SUPPORTED), which `gdr probe cuda` reads, is 0.

    What to do: If `modinfo -F license nvidia` prints Dual MIT/GPL already, the open modules are installed:
    reboot. Otherwise change to the open modules, which support Turing and newer, and reboot. They are
    `nvidia-driver-<branch>-open` on Ubuntu, `kmod-nvidia-open-dkms` on Red Hat's; with the .run installer of
    560 and newer, `--kernel-module-type=open`; with the GPU Operator, `driver.kernelModuleType=open`.

    Why: Only the open modules contain the code that exports GPU memory as dma-buf.

    Source: NVIDIA GPU Operator documentation, GPUDirect RDMA, table of requirements;
    open-gpu-kernel-modules kernel-open/nvidia/nv-dmabuf.c, which has no counterpart in the closed driver.
    """
    try:
        flavour, where = driver_flavour(node), "loaded"
    except EvidenceAbsent:
        try:
            flavour, where = disk_driver_flavour(node), "on disk, not loaded"
        except EvidenceAbsent:
            return NotApplicable("no NVIDIA driver is loaded or installed")
    if flavour == "open":
        return Passed(f"open modules, {where}")
    if where == "loaded" and if_missing("", disk_driver_flavour, node) == "open":
        where = "loaded; open ones are on disk"
    return Failed(
        seen=f"proprietary modules, {where}",
        expected="open modules",
        subject="nvidia",
        advice=_BY_OPERATOR if has_driver_container(node) else "",
    )
