"""Windows Subsystem for Linux."""

from __future__ import annotations

from gdrkit.facts.virtual import is_wsl
from gdrkit.node import Node
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import REGISTRATION, Failed, Layer, Outcome, Passed, rule, the_node


@rule(
    "wsl",
    Layer.HARDWARE,
    per=the_node,
    takes=REGISTRATION,
    permanent=REGISTRATION,
    reported_by=(DecidingCommand("uname -r", "`microsoft` in the kernel's release"),),
    cost="Windows owns GPU and NIC; data passes through host memory.",
    references=("https://docs.nvidia.com/cuda/wsl-user-guide/",),
)
def wsl(node: Node, subject: str) -> Outcome:
    """This is the Windows Subsystem for Linux: there is no NVIDIA kernel driver here.

    Cost: NCCL copies through host memory and, without RDMA devices, uses sockets.

    How to tell: A kernel release that contains "microsoft".

    What to do: None within WSL. Start Linux itself.

    Why: CUDA reaches the GPU through /dev/dxg and the driver of Windows. Neither nvidia.ko nor
    nvidia-peermem.ko exists in the guest, so nothing could give GPU memory to a NIC.

    Source: NVIDIA, CUDA on WSL User Guide; Microsoft WSL2-Linux-Kernel.
    """
    if is_wsl(node):
        return Failed(seen="a kernel of WSL", expected="a kernel that drives the GPU", subject="node")
    return Passed("not WSL")
