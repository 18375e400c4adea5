"""One boot of one profile with its cases: prepare, run, return the transcript."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct

from gdrkit.agent.collect.pyz import archive
from lab import cpio
from lab.cache import LabError
from lab.case import Case, Prepared, prepare
from lab.firmware import firmware
from lab.kernels import Kernel
from lab.machine import BOOT_SECONDS, CASE_SECONDS, SCRIPT_SECONDS, Boot, Firmware, Transcript, run
from lab.modules import built
from lab.packages import UBUNTU
from lab.profiles import Profile
from lab.rootfs import BASE, headers_file, modules_archive, packages_archive

_GUEST = Path(__file__).parent / "guest"
_BLACKLIST = "module_blacklist="


class Session(Struct, frozen=True):
    """The cases and the transcript of one boot."""

    kernel: Kernel
    profile: Profile
    seed: int
    cases: tuple[Prepared, ...]
    transcript: Transcript
    firmware: Firmware | None = None


def boot(
    kernel: Kernel,
    profile: Profile,
    cases: Iterable[Case],
    *,
    seed: int,
    packages: tuple[str, ...] = BASE,
    scripts: Iterable[dict[str, Any]] = (),
    files: dict[str, bytes] | None = None,
    collect: Collection[str] | None = None,
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Session:
    """Boot the profile and run modprobe for every case. Raises LabError if the guest fails.

    `collect`: names of the cases that need a bundle; None: all. A prediction needs one, a repetition does
    not.
    """
    if not starts(kernel, profile):
        raise LabError(f"{profile.name}: Debian's shim does not start kernels of other distributions")
    uefi = firmware(profile, kernel.flavour.archive)  # first, as it may miss a tool
    compiled = built(kernel)
    prepared = tuple(prepare(case, kernel, compiled, profile.key, seed) for case in cases)
    scripts = list(scripts)
    plan = {
        "cases": [row.task for row in prepared],
        "scripts": scripts,
        "pace": profile.pace_s,
        "collect": [row.case.name for row in prepared if collect is None or row.case.name in collect],
    }
    contents = {f"lab/blobs/{name}": blob for row in prepared for name, blob in row.blobs.items()}
    with TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        own = Path(scratch, "own.cpio")
        own.write_bytes(own_archive(kernel, profile, plan, contents | (files or {})))
        archives = (packages_archive(kernel.flavour, packages), modules_archive(kernel), own)
        scripts_s = sum(script.get("expected", SCRIPT_SECONDS) for script in scripts)
        limit = BOOT_SECONDS + len(prepared) * CASE_SECONDS + scripts_s
        machine = Boot(kernel, archives, command_line(profile, prepared), uefi)
        transcript = run(machine, seconds=limit, on_event=on_event)
    return Session(kernel, profile, seed, prepared, transcript, uefi)


def starts(kernel: Kernel, profile: Profile) -> bool:
    """Whether this kernel boots with the profile: shim and grub are Debian's, and only trust Debian's
    keys.
    """
    return profile.firmware != "shim" or kernel.flavour.archive is not UBUNTU


def command_line(profile: Profile, prepared: Iterable[Prepared]) -> str:
    """The arguments of the profile and of the cases. The kernel only uses the last `module_blacklist=`."""
    words = [word for row in prepared for word in row.append.split()]
    blacklisted = [word.partition("=")[2] for word in words if word.startswith(_BLACKLIST)]
    kept = [word for word in words if not word.startswith(_BLACKLIST)]
    lists = [_BLACKLIST + ",".join(blacklisted)] if blacklisted else []
    return " ".join((profile.append, *kept, *lists)).strip()


def own_archive(kernel: Kernel, profile: Profile, plan: dict[str, Any], files: dict[str, bytes]) -> bytes:
    """The small initramfs of one boot: the runner and its plan."""
    contents = {"lab/boot.json": json.dumps(plan).encode(), "lab/collect.pyz": archive(), **files}
    for name in ("runner.py", "evidence.py"):
        contents[f"lab/{name}"] = (_GUEST / name).read_bytes()
    entries = cpio.files({"init": (_GUEST / "init.sh").read_bytes()}, mode=0o755)
    if profile.headers:
        contents |= headers_file(kernel)
        source = f"/usr/src/linux-headers-{kernel.release}"
        entries |= cpio.links({f"usr/lib/modules/{kernel.release}/build": source})
    return cpio.pack(cpio.files(contents) | entries)
