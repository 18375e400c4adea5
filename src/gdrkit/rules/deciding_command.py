"""What tells one cause of a line from another: a command, and what it shows if that is the cause.

The commands that several rules ask for stand here. `{module}` and `{file}` are the module that the line
names, with underscores and with dashes.
"""

from __future__ import annotations

from msgspec import Struct

DMESG = "sudo dmesg | grep -iE 'peermem|nvrm|module|lockdown|elf'"
NVIDIA_SMI = "nvidia-smi -q"
MODINFO = "modinfo {file}"
LSMOD = "lsmod | grep -E 'peer_?mem'"
DRIVER_VERSION = "cat /proc/driver/nvidia/version"
DEVINFO = "ibv_devinfo"
CUDA_PROBE = "gdr probe cuda"
VERBS_PROBE = "gdr probe verbs"


class DecidingCommand(Struct, frozen=True):
    """A command, and what it shows where the cause is this one."""

    command: str
    shows: str


def fill(text: str, module: str) -> str:
    """A command, or what it shows, for a module."""
    name = module or "nvidia_peermem"
    return text.replace("{module}", name).replace("{file}", name.replace("_", "-"))
