"""Commands that distinguish the possible causes of a log line.

Commands that several rules use are constants here. `{module}` and `{file}` are replaced by the module that
the line names, with underscores and with dashes.
"""

from __future__ import annotations

from msgspec import Struct

DMESG = "sudo dmesg | grep -iE 'peermem|nvrm|module|lockdown|elf'"
NVIDIA_SMI = "nvidia-smi -q"
MODINFO = "modinfo {file}"
LSMOD = "lsmod | grep -E 'peer_?mem'"
DRIVER_VERSION = "cat /proc/driver/nvidia/version"
DEVINFO = "ibv_devinfo"
ACS = "sudo lspci -vvv | grep -i acsctl"
CUDA_PROBE = "gdr probe cuda"
VERBS_PROBE = "gdr probe verbs"


class DecidingCommand(Struct, frozen=True):
    """A command, and what it shows if this is the cause."""

    command: str
    shows: str


def fill(text: str, module: str) -> str:
    """The text with `{module}` and `{file}` replaced; nvidia_peermem if no module is given."""
    name = module or "nvidia_peermem"
    return text.replace("{module}", name).replace("{file}", name.replace("_", "-"))
