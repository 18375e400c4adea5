"""A guest that is started several times and keeps some folders in between: steps, a reboot, more steps.

A guest lives in memory. What shall outlive it is packed at the end of each boot onto a raw disk, as a tar
archive, and unpacked from there at the beginning of the next, before any step runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from lab.cache import LabError
from lab.kernels import Kernel
from lab.profiles import Profile
from lab.rootfs import BASE
from lab.session import boot

KEPT = ("etc", "var", "boot", "root", "usr/lib/modules", "usr/lib/modprobe.d")
_DISK_MIB = 256
_RESTORE = """set -e
/usr/sbin/modprobe virtio_blk
for _ in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; busybox sleep 0.2; done
if [ "$(busybox dd if=/dev/vda bs=257 skip=1 count=1 2>/dev/null | busybox head -c 5)" = ustar ]; then
  for folder in KEPT; do busybox rm -rf /$folder; done
  busybox tar -xf /dev/vda -C /
fi
"""
_SAVE = """set -e
cd /; there=""; for folder in KEPT; do [ -e $folder ] && there="$there $folder"; done
busybox tar -cf /dev/vda $there; busybox sync
"""


class Step(Struct, frozen=True):
    """A command in the guest, and how long it may take."""

    name: str
    argv: tuple[str, ...]
    seconds: int = 240


class Done(Struct, frozen=True):
    """What a step did."""

    name: str
    exit_code: int | None  # None: it took too long
    stdout: str
    stderr: str
    log: tuple[str, ...]  # the kernel's new lines


class Start(Struct, frozen=True):
    """One boot: its steps, and further words for the kernel's command line."""

    steps: tuple[Step, ...]
    append: str = ""


def shell(name: str, line: str, seconds: int = 240) -> Step:
    """A step that is a line of shell."""
    return Step(name, ("/bin/sh", "-c", line), seconds)


def run_steps(
    kernel: Kernel,
    profile: Profile,
    starts: Sequence[Start],
    *,
    files: dict[str, bytes] | None = None,
    packages: tuple[str, ...] = BASE,
    kept: tuple[str, ...] = KEPT,
) -> list[list[Done]]:
    """Boot once for each start, with the kept folders as the boot before left them: each boot's steps.

    Raises LabError where a guest breaks down or cannot keep its folders; a step that fails is a result.
    """
    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        disk = Path(scratch, "disk")
        with disk.open("wb") as file:
            file.truncate(_DISK_MIB << 20)
        return [_boot(kernel, profile, start, disk, files or {}, packages, kept) for start in starts]


def _boot(
    kernel: Kernel,
    profile: Profile,
    start: Start,
    disk: Path,
    files: dict[str, bytes],
    packages: tuple[str, ...],
    kept: tuple[str, ...],
) -> list[Done]:
    folders = " ".join(kept)
    steps = (
        shell("restore", _RESTORE.replace("KEPT", folders)),
        *start.steps,
        shell("save", _SAVE.replace("KEPT", folders)),
    )
    drive = f"if=none,id=kept,format=raw,cache=unsafe,file={disk}"
    session = boot(
        kernel,
        profile,
        (),
        seed=0,
        packages=packages,
        scripts=[{"name": step.name, "argv": list(step.argv), "seconds": step.seconds} for step in steps],
        files=files,
        append=start.append,
        extra=("-drive", drive, "-device", "virtio-blk-pci,drive=kept"),
    )
    done = [_done(event) for event in session.transcript.of("script")]
    for step in (done[0], done[-1]):
        if step.exit_code != 0:
            raise LabError(f"{step.name}: exit {step.exit_code}\n{step.stderr}")
    return done[1:-1]


def _done(event: dict[str, Any]) -> Done:
    return Done(event["name"], event["exit_code"], event["stdout"], event["stderr"], tuple(event["log"]))
