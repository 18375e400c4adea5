"""Boots one guest in QEMU and reads its events, until the end mark or a timeout.

Uses TCG with one CPU: nested virtualization is not always available, and a second emulated CPU only makes
a boot slower. The guest sends its events through a virtio port; its console goes to a file, for debugging.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from lab.cache import LabError, apt_command, command, folder, say
from lab.kernels import Kernel

BOOT_SECONDS = 300.0  # generous: a loaded machine needs three times as long as an idle one
CASE_SECONDS = 10.0  # added for each case: one takes 0.3 s, with a bundle 1 to 5 s on a busy machine
SCRIPT_SECONDS = 20.0  # added for each script: gdrkit's processes take seconds to start


class Firmware(Struct, frozen=True):
    """UEFI firmware with a variable store, and an ESP folder if shim and grub are used."""

    code: Path
    variables: Path
    esp: Path | None = None
    packages: tuple[str, ...] = ()  # their names and versions


class Boot(Struct, frozen=True):
    """One boot: a kernel, its initramfs parts in order, arguments for its command line."""

    kernel: Kernel
    initrds: tuple[Path, ...]
    append: str = ""
    firmware: Firmware | None = None
    memory_mib: int = 1280
    extra: tuple[str, ...] = ()  # further arguments for QEMU


class Transcript(Struct):
    """A guest's events in order, and the contents that it sent, by digest."""

    events: list[dict[str, Any]]
    contents: dict[str, bytes]
    seconds: float

    def of(self, kind: str) -> Iterator[dict[str, Any]]:
        return (event for event in self.events if event["event"] == kind)


def run(
    boot: Boot,
    *,
    seconds: float = BOOT_SECONDS,
    on_event: Callable[[dict[str, Any]], None] = lambda event: None,
) -> Transcript:
    """Boot a guest and return its transcript. Raises LabError if the end mark never came."""
    with _alone():
        return _run(boot, seconds, on_event)


def run_together(boots: Sequence[Boot], *, seconds: float = BOOT_SECONDS) -> list[Transcript]:
    """Boot several guests at the same time, so that they can communicate."""
    ended = threading.Event()
    with _alone(), ThreadPoolExecutor(len(boots)) as pool:
        jobs = [pool.submit(_run, boot, seconds, lambda event: None, ended) for boot in boots]
        try:
            return [job.result() for job in jobs]
        finally:
            ended.set()  # after a failure or a signal the pool would wait for guests that wait for nothing


def _run(
    boot: Boot,
    seconds: float,
    on_event: Callable[[dict[str, Any]], None],
    ended: threading.Event | None = None,
) -> Transcript:
    with tempfile.TemporaryDirectory(prefix="gdrkit-lab-") as scratch:
        port, console = Path(scratch, "port"), Path(scratch, "console")
        initrd = Path(scratch, "initrd")
        write_initrd(initrd, boot)
        argv = arguments(boot, initrd, scratch, f"file,id=lab,path={port}", f"file:{console}")
        began = time.monotonic()
        events: list[dict[str, Any]] = []
        contents: dict[str, bytes] = {}
        is_complete = False
        for event in _listen(argv, port, began + seconds, ended or threading.Event()):
            if event["event"] == "content":
                contents[event["name"]] = zlib.decompress(base64.b64decode(event["data"]))
                continue
            events.append(event)
            on_event(event)
            is_complete = is_complete or event["event"] == "end"
        if not is_complete:
            tail = console.read_text(errors="replace")[-3000:] if console.exists() else ""
            raise LabError(f"the guest never reached its end mark ({len(events)} events)\n{tail}")
        return Transcript(events, contents, time.monotonic() - began)


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Wait until no other guest runs on this machine: two guests slow each other down until they time out.

    GDRKIT_LAB_GUESTS allows more, for machines with enough CPUs.
    """
    slots = max(1, int(os.environ.get("GDRKIT_LAB_GUESTS", "1")))
    with contextlib.ExitStack() as stack:
        names = ["guest.lock", *(f"guest.{number}.lock" for number in range(1, slots))]
        locks = [stack.enter_context((folder() / name).open("w")) for name in names]
        for lock in reversed(locks):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
        else:
            say("waiting for another guest to end")
            fcntl.flock(locks[0], fcntl.LOCK_EX)
        yield


def write_initrd(path: Path, boot: Boot) -> None:
    """Concatenate the archives, each aligned to four bytes, as the kernel expects them.

    Unpacked here, they need no zstd on an emulated CPU: a boot takes 11 s of CPU time instead of 17. GRUB
    reads them block by block, and gets them as they are.
    """
    by_grub = boot.firmware is not None and boot.firmware.esp is not None
    with path.open("wb") as file:
        for part in boot.initrds:
            unpack = part.suffix == ".zst" and not by_grub
            data = command("zstd", "-q", "-d", "-c", part) if unpack else part.read_bytes()
            file.write(data + bytes(-len(data) % 4))


def _listen(
    argv: list[str], port: Path, deadline: float, ended: threading.Event
) -> Iterator[dict[str, Any]]:
    """Events as they arrive; returns when the guest has ended. A guest that is too slow is killed."""
    port.touch()
    with tempfile.TemporaryFile() as complaints:
        machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=complaints, stderr=complaints)
        try:
            with port.open("rb") as file:
                rest = b""
                while True:
                    alive = machine.poll() is None
                    data = file.read(1 << 20)
                    rest += data
                    *lines, rest = rest.split(b"\n")
                    yield from (json.loads(line) for line in lines)
                    if not alive and not data:
                        break
                    if time.monotonic() > deadline:
                        raise LabError("the guest took too long; is this machine very busy?")
                    if ended.is_set():
                        raise LabError("the run ended before the guest")
                    if not data:
                        time.sleep(0.05)
        finally:
            if machine.poll() is None:
                machine.kill()
            machine.wait()
        complaints.seek(0)
        if machine.returncode:
            raise LabError(
                f"QEMU ended with {machine.returncode}: {complaints.read().decode(errors='replace')[-2000:]}"
            )


def arguments(boot: Boot, initrd: Path, scratch: str, port: str, serial: str) -> list[str]:
    """The command line of a guest, which ends with the thread that starts it, also if that is killed
    (prctl(2), PR_SET_PDEATHSIG). Raises LabError if QEMU is not installed."""
    arm = boot.kernel.flavour.architecture == "arm64"
    console = "ttyAMA0" if arm else "ttyS0"
    # log_buf_len: keep the whole log since boot; loglevel: the console is slow; no_timer_check: on a busy
    # machine a guest may consider its timer broken and panic (arch/x86/kernel/apic/io_apic.c)
    usual = "panic=-1 loglevel=3 log_buf_len=4M" + ("" if arm else " no_timer_check")
    append = f"console={console} {usual} {boot.append}".strip()
    qemu = "qemu-system-aarch64" if arm else "qemu-system-x86_64"
    if shutil.which(qemu) is None:
        raise LabError(f"{qemu} is not installed; {apt_command()}")
    argv = ["setpriv", "--pdeathsig", "KILL", "nice", "-n", "5", qemu, "-accel", "tcg"]
    argv += ["-cpu", "max", "-smp", "1", "-m", str(boot.memory_mib), "-nodefaults", "-no-user-config"]
    argv += ["-nographic", "-no-reboot", "-serial", serial]
    argv += ["-chardev", port]
    argv += ["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=lab,name=lab"]
    argv += ["-M", _machine(boot, arm), *boot.extra]
    if boot.firmware is not None:
        argv += _firmware(boot.firmware, scratch, arm)
    if boot.firmware is None or boot.firmware.esp is None:
        argv += ["-kernel", str(boot.kernel.file("vmlinuz")), "-initrd", str(initrd), "-append", append]
    else:
        argv += _esp(boot, boot.firmware.esp, initrd, append)
    return argv


def _machine(boot: Boot, arm: bool) -> str:
    if arm:
        return "virt,gic-version=3"
    return "q35,smm=on" if boot.firmware is not None else "q35"


def _firmware(firmware: Firmware, scratch: str, arm: bool) -> list[str]:
    variables = Path(scratch, "variables.fd")
    variables.write_bytes(firmware.variables.read_bytes())
    secure = [] if arm else ["-global", "driver=cfi.pflash01,property=secure,value=on"]
    return [
        *secure,
        "-drive", f"if=pflash,unit=0,readonly=on,format=raw,file={firmware.code}",
        "-drive", f"if=pflash,unit=1,format=raw,file={variables}",
    ]  # fmt: skip


def _esp(boot: Boot, esp: Path, initrd: Path, append: str) -> list[str]:
    """The ESP as a folder that QEMU presents as a FAT disk: shim, grub, a menu with one entry."""
    root = initrd.parent / "esp"
    for file in esp.rglob("*"):
        if file.is_file():
            target = root / file.relative_to(esp)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    (root / "vmlinuz").write_bytes(boot.kernel.file("vmlinuz").read_bytes())
    initrd.replace(root / "initrd")
    menu = root / "EFI/debian/grub.cfg"
    menu.parent.mkdir(parents=True, exist_ok=True)
    menu.write_text(f"search --file --set=root /vmlinuz\nlinux /vmlinuz {append}\ninitrd /initrd\nboot\n")
    drive = f"if=none,id=esp,format=raw,readonly=on,file=fat:{root}"
    return ["-drive", drive, "-device", "virtio-blk-pci,drive=esp,bootindex=0"]
