"""Programs that tests run. A machine may lack one: without it a test is skipped, or fails in CI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from machines.programs import found

IN_CI = os.environ.get("CI") == "true"
PACKAGES: dict[str, tuple[str, ...]] = {
    "binutils": ("nm", "objcopy"),
    "chromium": ("chromium",),
    "fish": ("fish",),
    "gcc libc6-dev": ("gcc", "cc"),
    "git": ("git",),
    "grub-common": ("grub-mkconfig", "grub-script-check"),
    "grub-emu": ("grub-emu",),
    "groff-base": ("groff",),
    "gzip": ("gzip",),
    "hwloc-nox": ("lstopo-no-graphics",),
    "iproute2": ("ip", "tc"),
    "kmod": ("depmod", "modinfo", "modprobe"),
    "mandoc": ("mandoc",),
    "munge": ("munged",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "openssh-server": ("sshd",),
    "openssl": ("openssl",),
    "pciutils": ("lspci", "setpci"),
    "prometheus": ("prometheus", "promtool"),
    "prometheus-node-exporter": ("prometheus-node-exporter",),
    "shellcheck": ("shellcheck",),
    "slurm-client": ("srun", "squeue", "scontrol", "sinfo", "scancel"),
    "slurmctld": ("slurmctld",),
    "slurmd": ("slurmd",),
    "sosreport": ("sos",),
    "systemd": ("systemd-analyze",),
    "udev": ("udevadm",),
    "util-linux": ("dmesg", "nsenter", "setsid", "unshare"),
    "xz-utils": ("xz",),
    "zsh": ("zsh",),
    "zstd": ("zstd",),
}
"""Debian's packages, each with the programs of it that tests start: `apt-file search bin/NAME`."""


def how_to_install(*names: str) -> str:
    """The command that installs these programs."""
    packages = [package for package, programs in PACKAGES.items() if set(programs) & set(names)]
    return f"sudo apt install {' '.join(packages)}"


def missing(*names: str) -> str:
    """What a test that runs these programs lacks, with the command that enables it; "" if nothing."""
    absent = [name for name in names if found(name) is None]
    return f"no {', '.join(absent)} here: {how_to_install(*absent)}" if absent else ""


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test without these programs."""
    reason = missing(*names)
    return pytest.mark.skipif(bool(reason), reason=reason)


def program(name: str) -> str:
    """The path of a program. Without it the test is skipped, or fails in CI."""
    if path := found(name):
        return path
    if IN_CI:
        pytest.fail(missing(name))
    pytest.skip(missing(name))


def has_ended(pid: int) -> bool:
    """Whether a process has ended, if its parent has waited for it or not: proc_pid_stat(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
