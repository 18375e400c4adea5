"""Xid lines of NVIDIA's driver: which of them leave a GPU that no program can use, and what recovers it.

    NVRM: Xid (PCI:0000:3b:00): 79, pid=1410, name=python3, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
    NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)

Sources: open-gpu-kernel-modules 595.45.04 src/nvidia/src/kernel/gpu/rc/kernel_rc.c (the form),
gpu/arch/ampere/kern_gpu_error_cont_ga100.c (RST, D-RST), gpu/gpu.c (154).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from msgspec import Struct

from gdrkit.formats.regex import regex


class Recovery(enum.StrEnum):
    """What makes a GPU usable again, as nvml.h names it in nvmlDeviceGpuRecoveryAction_t."""

    NONE = "none"
    RESET = "a reset of the GPU"
    REBOOT = "a reboot"
    DRAIN_P2P = "the end of all peer-to-peer traffic"
    DRAIN_AND_RESET = "a reset of the GPU once its jobs have ended"


class Xid(Struct, frozen=True):
    """One line."""

    slot: str  # 0000:3b:00
    number: int
    text: str
    line: int  # in the log, from 1


class NeededRecovery(Struct, frozen=True):
    """What a GPU needs before a program can use it, and what shows that."""

    recovery: Recovery
    seen: str


MEANINGS: Mapping[int, tuple[str, Recovery]] = {
    46: ("the GPU stopped processing", Recovery.RESET),
    48: ("a double-bit error in its memory", Recovery.RESET),
    62: ("its power management unit halted", Recovery.RESET),
    64: ("a row of its memory could not be remapped", Recovery.RESET),
    79: ("fallen off the bus", Recovery.REBOOT),
    95: ("an uncontained memory error", Recovery.RESET),
    109: ("a context switch timed out", Recovery.RESET),
    110: ("a security fault", Recovery.RESET),
    119: ("its GSP does not answer", Recovery.RESET),
    120: ("an error of its GSP", Recovery.RESET),
    136: ("its NVLinks could not be trained", Recovery.RESET),
    140: ("an unrecovered memory error", Recovery.RESET),
    143: ("it could not be initialised", Recovery.RESET),
    155: ("an NVLink error", Recovery.RESET),
    156: ("a part of it was retired", Recovery.RESET),
    158: ("a fatal timeout", Recovery.RESET),
}
"""The Xids after which the GPU must be reset, or the machine restarted. All others end a process at most
(13, 31, 43, 45), are only recorded (63, 92), or do not show the state of the whole GPU (74).

Sources: NVIDIA, Analyzing Xid Errors with the Xid Catalog (docs.nvidia.com/deploy/xid-errors), for Ampere
and newer, the immediate actions RESET_GPU, RESTART_BM and, for 48, WORKFLOW_XID_48; the same as data:
NVIDIA/NVSentinel charts/gpu-health-monitor/xiderrorsmapping.csv; open-gpu-kernel-modules nverror.h for the
names."""

OFF_THE_BUS, CONTAINED, CHANGED = 79, 94, 154
FOLLOW = (13, 31, 43, 45, 63)
"""What may be between the Xids 48 and 94 of one error: the ends of its processes, and the row to
remap."""

_LINE = regex(
    r"NVRM: Xid \(PCI:(?P<slot>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]{0,40}\): "
    r"(?P<number>\d{1,5}), "
)
_CONTAINMENT = regex(r"\bRST: (?P<reset>Yes|No), D-RST: (?P<drain>Yes|No)")
_CHANGE = regex(r"recovery action changed from .{1,60} to 0x[0-9a-f]{1,8} \((?P<to>[^)]{1,60})\)")

ACTIONS: Mapping[str, Recovery] = {
    "none": Recovery.NONE,
    "reset": Recovery.RESET,
    "gpu reset required": Recovery.RESET,
    "pf flr": Recovery.RESET,
    "reboot": Recovery.REBOOT,
    "os reboot": Recovery.REBOOT,
    "node reboot required": Recovery.REBOOT,
    "drain p2p": Recovery.DRAIN_P2P,
    "drain and reset": Recovery.DRAIN_AND_RESET,
    "recover imex domain": Recovery.NONE,  # its memory stays usable: only sharing it over NVLink is not
}
"""The names of the actions in Xid 154 and in `nvidia-smi -q`, in small letters. Sources: gpu.c,
_gpuRecoveryActionName(); logs of driver 610 (PF FLR, OS Reboot); nvidia-smi(1), GPU Recovery Action."""


def parse(text: str, line: int) -> Xid | None:
    """The Xid in a message of the kernel; None in any other message."""
    found = _LINE.match(text)
    if found is None:
        return None
    domain, _, rest = found["slot"].lower().partition(":")
    return Xid(f"{int(domain, 16):04x}:{rest}", int(found["number"]), text, line)


def needed(xids: Sequence[Xid]) -> tuple[NeededRecovery, Xid] | None:
    """What one GPU needs after its Xids, oldest first, and the line that says so; None: nothing.

    The last change of the recovery action counts, and what is logged after it. Where the change asks for
    what the error before it needs, the error is the line: it says why."""
    found: tuple[NeededRecovery, Xid] | None = None
    for index, xid in enumerate(xids):
        if xid.number == CHANGED:
            changed = _changed(xid)
            if not (changed and found and changed[0].recovery is found[0].recovery):
                found = changed
        elif (need := _after(xids, index)) and (found is None or found[0].recovery is not Recovery.REBOOT):
            found = need, xid
    return found


def _changed(xid: Xid) -> tuple[NeededRecovery, Xid] | None:
    to = _CHANGE.search(xid.text)
    if to is None:
        return None
    recovery = ACTIONS.get(to["to"].lower(), Recovery.RESET)  # of a newer driver: some action is needed
    if recovery is Recovery.NONE:
        return None
    return NeededRecovery(recovery, f"Xid {CHANGED}, {to['to']}"), xid


def _after(xids: Sequence[Xid], index: int) -> NeededRecovery | None:
    """What the GPU needs by one of its Xids, other than a change of the action."""
    xid = xids[index]
    marked = _CONTAINMENT.search(xid.text)
    if marked is not None:  # the driver says itself whether it marked the GPU
        if marked["reset"] == "Yes":
            return NeededRecovery(Recovery.RESET, f"Xid {xid.number}, RST: Yes")
        if marked["drain"] == "Yes":
            return NeededRecovery(Recovery.DRAIN_AND_RESET, f"Xid {xid.number}, D-RST: Yes")
        return None
    meaning = MEANINGS.get(xid.number)
    if meaning is None or (xid.number == 48 and _is_contained(xids, index)):
        return None
    return NeededRecovery(meaning[1], f"Xid {xid.number}, {meaning[0]}")


def _is_contained(xids: Sequence[Xid], index: int) -> bool:
    """Whether the error of Xid 48 only ended the processes that used the memory: Xid 94 is beside it.

    Source: NVIDIA GPU Memory Error Management, "Error Containment"."""
    before = (xid.number for xid in reversed(xids[:index]))
    after = (xid.number for xid in xids[index + 1 :])
    return any(
        next((number for number in side if number not in FOLLOW), 0) == CONTAINED for side in (before, after)
    )
