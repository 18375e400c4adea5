"""What starts guests also ends them, however it ends itself. A program that sleeps stands for QEMU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.cache import LabError
from lab.kernels import FLAVOURS, Kernel
from lab.machine import Boot, arguments

QEMU = """#!/bin/sh
touch "$GUESTS/$$"
exec sleep 600
"""
LAB = """
import runpy, signal, sys
from pathlib import Path
from lab import commands
from lab.kernels import FLAVOURS, Kernel
from lab.machine import Boot, run, run_together
signal.signal(signal.SIGINT, signal.default_int_handler)  # it is ignored in what a shell starts with &
boots = [Boot(Kernel(FLAVOURS[0], "6.1", "1", Path("none"), Path("none")), ())] * int(sys.argv[1])
commands.compare = lambda options: run(boots[0]) if len(boots) == 1 else run_together(boots)
sys.argv = ["lab", "compare"]
runpy.run_module("lab", run_name="__main__")
"""


@pytest.mark.parametrize("guests", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_guests_end_with_the_lab(number: signal.Signals, guests: int, tmp_path: Path) -> None:
    qemu, started, scratch = (tmp_path / name for name in ("bin/qemu-system-x86_64", "guests", "scratch"))
    for folder in (qemu.parent, started, scratch):
        folder.mkdir()
    qemu.write_text(QEMU)
    qemu.chmod(0o755)
    places = {"TMPDIR": scratch, "GDRKIT_LAB_CACHE": tmp_path, "GUESTS": started}
    environment = os.environ | {name: str(path) for name, path in places.items()}
    environment["PATH"] = f"{qemu.parent}:{environment['PATH']}"
    lab = subprocess.Popen([sys.executable, "-c", LAB, str(guests)], env=environment)
    try:
        assert within(30, lambda: len([*started.iterdir()]) == guests)
        pids = [int(file.name) for file in started.iterdir()]
        assert all(map(runs, pids)) and [*scratch.iterdir()]
        lab.send_signal(number)
        lab.wait(10)

        assert within(10, lambda: not any(map(runs, pids)))
        if number != signal.SIGKILL:
            assert [*scratch.iterdir()] == []  # an initramfs has hundreds of MB
    finally:
        lab.kill()
        lab.wait()
        for pid in filter(runs, (int(file.name) for file in started.iterdir())):
            os.kill(pid, signal.SIGKILL)


def test_a_missing_qemu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    boot = Boot(Kernel(FLAVOURS[0], "6.1", "1", tmp_path, tmp_path), ())

    with pytest.raises(LabError, match=r"^qemu-system-x86_64 is not installed; sudo apt-get install"):
        arguments(boot, tmp_path / "initrd", str(tmp_path), "null,id=lab", "stdio")


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Whether something holds before some seconds are over."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def runs(pid: int) -> bool:
    """Whether a process runs: not one that has ended and is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
