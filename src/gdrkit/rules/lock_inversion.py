"""A deadlock of the older PeerDirect mode."""

from __future__ import annotations

from gdrkit.facts.modprobe_config import configuration
from gdrkit.facts.modules import is_loaded
from gdrkit.facts.packages import ofed
from gdrkit.formats.versions import numbers
from gdrkit.node import Node, if_absent
from gdrkit.rules.deciding_command import DecidingCommand
from gdrkit.rules.module_subjects import peermem
from gdrkit.rules.rule import Failed, Layer, NotApplicable, Outcome, Passed, Status, rule

PARAMETER = "peerdirect_support"
FIRST_PEERDIRECT = (5, 1)
"""The first MLNX_OFED with the newer PeerDirect: nvidia-peermem.c, comment at peerdirect_support."""


@rule(
    "lock-inversion",
    Layer.DRIVER,
    per=peermem,
    default_status=Status.WARNING,
    reported_by=(DecidingCommand("cat /sys/module/nvidia_peermem/parameters/peerdirect_support", "1"),),
    cost="Processes can hang permanently when GPU memory is freed while it is registered.",
    references=("https://docs.nvidia.com/networking/display/mlnxofedv51258060/",),
)
def lock_inversion(node: Node, module: str) -> Outcome:
    """nvidia-peermem runs in its legacy PeerDirect mode on a stack that does not need it, and can deadlock.

    Cost: A rare deadlock that only a reboot ends.

    How to tell: `cat /sys/module/nvidia_peermem/parameters/peerdirect_support` prints 1, or `modprobe -c`
    shows an options line with peerdirect_support=1, on MLNX_OFED 5.1 or newer, DOCA-OFED, or a kernel that
    has the API itself. After a deadlock, tasks hang in state D with ib_umem and nvidia functions on their
    stacks.

    What to do: Remove `peerdirect_support=1` from modprobe.d: it is only for MLNX_OFED 5.0 and the 4.9 LTS.
    Then reload the module.

    Why: Freeing GPU memory takes the driver's lock and then the RDMA core's; deregistering takes them in
    the opposite order. Fixed stacks let a client declare that it unmaps by itself
    (PEER_MEM_INVALIDATE_UNMAPS); nvidia-peermem declares it unless peerdirect_support=1. The persistent
    client, default from driver 560 on, has no such callback at all.

    Source: open-gpu-kernel-modules kernel-open/nvidia-peermem/nvidia-peermem.c; Mellanox/nv_peer_memory
    README.md.
    """
    value, where = _setting(node, module)
    if value != "1":
        return Passed(f"{PARAMETER} is {value}") if value else NotApplicable(f"{PARAMETER} is not set")
    stack = ofed(node)
    if stack.kind == "mlnx-ofed" and () < numbers(stack.version) < FIRST_PEERDIRECT:
        return Passed(f"{PARAMETER}=1 is right for MLNX_OFED {stack.version}")
    return Failed(seen=f"{PARAMETER}=1 in {where}", expected=f"{PARAMETER}=0", subject=module)


def _setting(node: Node, module: str) -> tuple[str, str]:
    """The parameter's value and where it was found: in the kernel if the module is loaded, else in
    modprobe's configuration."""
    if is_loaded(node, module):
        where = f"sys/module/{module}/parameters"
        return if_absent("", lambda: node.text(f"{where}/{PARAMETER}").strip()), where
    for entry in reversed(configuration(node).options_of(module)):
        for word in reversed(entry.value.split()):
            name, _, value = word.partition("=")
            if name == PARAMETER:
                return value, f"{entry.file}:{entry.line}"
    return "", ""
