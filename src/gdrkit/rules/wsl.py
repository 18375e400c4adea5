"""Windows Subsystem for Linux."""

from __future__ import annotations

from gdrkit.facts.virtual import is_wsl
from gdrkit.node import Node
from gdrkit.rules.capabilities import GPU_MEMORY
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.rule import FABRIC, Failed, Layer, Outcome, Passed, rule, the_node


@rule(
    "wsl",
    Layer.HARDWARE,
    per=the_node,
    takes=(*GPU_MEMORY, FABRIC),
    permanent=(*GPU_MEMORY, FABRIC),
    reported_by=(DecidingCommand("uname -r", "`microsoft` in the kernel's release"),),
    cost="Windows controls GPU and NIC; data passes through host memory.",
    references=("https://docs.nvidia.com/cuda/wsl-user-guide/",),
)
def wsl(node: Node, subject: str) -> Outcome:
    """This is the Windows Subsystem for Linux, which has no NVIDIA kernel driver.

    Cost: NCCL copies through host memory and, without RDMA devices, uses sockets.

    How to tell: `uname -r` prints a kernel release that contains "microsoft".

    What to do: Nothing fixes this within WSL. Boot Linux itself.

    Why: CUDA reaches the GPU through /dev/dxg and the Windows driver. Neither nvidia.ko nor
    nvidia-peermem.ko exists in the guest, so nothing can give a NIC access to GPU memory.

    Source: NVIDIA, CUDA on WSL User Guide; Microsoft WSL2-Linux-Kernel.
    """
    if is_wsl(node):
        return Failed(seen="a WSL kernel", expected="a kernel that drives the GPU", subject="node")
    return Passed("not WSL")
