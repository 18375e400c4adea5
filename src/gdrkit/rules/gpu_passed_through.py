"""GPUs that belong to a virtual machine of this host."""

from __future__ import annotations

from gdrkit.facts.pci import PciGpu, device_at, gpus
from gdrkit.node import Node, if_missing
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import GPU, Failed, Layer, Outcome, Passed, rule

VFIO = "vfio-pci"
"""Linux drivers/vfio/pci/vfio_pci.c: the driver that gives a PCI function to a virtual machine."""


def is_passed_through(node: Node, gpu: PciGpu) -> bool:
    """Whether vfio-pci holds the GPU. False also if its driver is not known."""
    return if_missing("", lambda: device_at(node, gpu.address).driver) == VFIO


def all_passed_through(node: Node) -> bool:
    """Whether vfio-pci holds every GPU; False where there is none, or where that is not known."""
    found = if_missing((), gpus, node)
    return bool(found) and all(is_passed_through(node, gpu) for gpu in found)


@rule(
    "gpu-passed-through",
    Layer.HARDWARE,
    per=gpus,
    takes=(GPU,),
    permanent=(GPU,),
    reported_by=(DecidingCommand("lspci -k -d 10de:", "`Kernel driver in use: vfio-pci`"),),
    cost="No program of this host can use the GPU; the virtual machine that has it can.",
    references=("https://docs.kernel.org/driver-api/vfio.html",),
)
def gpu_passed_through(node: Node, gpu: PciGpu) -> Outcome:
    """The GPU is passed through to a virtual machine: vfio-pci holds it, and NVIDIA's driver does not.

    Cost: None, if that is intended. Whether the GPU's memory reaches the network directly is a question for
    the virtual machine.

    How to tell: `lspci -k -d 10de:` prints `Kernel driver in use: vfio-pci`.

    What to do: Run `gdr doctor` in the virtual machine. If this host should use the GPU itself, remove it
    from the virtual machine, and its id from `vfio-pci.ids=` of the kernel command line and from
    /etc/modprobe.d; then restart.

    Why: A hypervisor reserves devices for its guests with vfio-pci. The IOMMU must translate for such
    devices, so that is normal, too.

    Source: Linux Documentation/driver-api/vfio.rst.
    """
    if is_passed_through(node, gpu):
        return Failed(
            seen=f"held by {VFIO}, for a virtual machine", expected="NVIDIA's driver", subject=gpu.address
        )
    return Passed("not held by vfio-pci")
