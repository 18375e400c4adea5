"""Texts and shortcuts that tests of `explain` share."""

from __future__ import annotations

from gdrkit.cli.explained import LogReader
from gdrkit.explain.explain import explain
from gdrkit.explain.explanation import Explanation, OpenLine, TextMachine
from gdrkit.explain.lines.transcript import NO_GAP
from gdrkit.explain.outputs.pasted_host import PastedHost

EINVAL = "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"
REJECTED = "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service"
UNKNOWN = (
    "modprobe: ERROR: could not insert 'nvidia_peermem': "
    "Unknown symbol in module, or unknown parameter (see dmesg)"
)
STUB = """\
filename:       /lib/modules/6.14.0-1013-nvidia/kernel/nvidia-580-open/nvidia-peermem.ko
version:        580.95.05
license:        Dual BSD/GPL
depends:
name:           nvidia_peermem
vermagic:       6.14.0-1013-nvidia SMP preempt mod_unload modversions aarch64
"""


def explained(text: str | bytes) -> Explanation:
    content = text.encode() if isinstance(text, str) else text
    return explain(PastedHost(text), LogReader(content, "text", NO_GAP))


def proven(text: str, machine: str | None = None) -> set[tuple[str, str]]:
    """Codes and subjects that are established."""
    found = explained(text).machines
    return {
        (e.code, e.subject)
        for one in found
        if machine is None or one.name == machine
        for e in one.established
    }


def codes(text: str, machine: str | None = None) -> set[str]:
    return {code for code, _ in proven(text, machine)}


def noted(text: str) -> set[str]:
    """Codes of what is proven and may not matter."""
    return {note.code for machine in explained(text).machines for note in machine.notes}


def open_lines(text: str) -> list[OpenLine]:
    return [line for machine in explained(text).machines for line in machine.open]


def only(text: str) -> TextMachine:
    (machine,) = explained(text).machines
    return machine


LSMOD = "$ lsmod | grep peermem\nnvidia_peermem         16384  0\n"
DISABLED = "h1:1:2 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n"

SMI = """\
GPU 0000000F:01:00.0
    Product Name                          : NVIDIA GB10
    Addressing Mode                       : ATS
    FB Memory Usage
        Total                             : N/A
"""
