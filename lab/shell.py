"""A guest with a shell on this terminal, for debugging cases."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from lab import cpio
from lab.firmware import firmware
from lab.kernels import Kernel
from lab.machine import Boot, arguments, write_initrd
from lab.profiles import Profile
from lab.rootfs import BASE, modules_archive, packages_archive


def open_shell(kernel: Kernel, profile: Profile) -> int:
    """Boot with the serial console on this terminal; returns QEMU's exit code."""
    init = (Path(__file__).parent / "guest/init.sh").read_bytes()
    entries = cpio.files({"lab/shell": b""}) | cpio.files({"init": init}, mode=0o755)
    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        own, initrd = Path(scratch, "own.cpio"), Path(scratch, "initrd")
        own.write_bytes(cpio.pack(entries))
        archives = (packages_archive(kernel.flavour, BASE), modules_archive(kernel), own)
        boot = Boot(kernel, archives, profile.append, firmware(profile, kernel.flavour.archive))
        write_initrd(initrd, boot)
        return subprocess.call(arguments(boot, initrd, scratch, "null,id=lab", "stdio"))
