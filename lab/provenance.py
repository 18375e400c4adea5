"""When and with what a session was recorded."""

from __future__ import annotations

import datetime
import functools
import re
from pathlib import Path

from msgspec import Struct

from lab.cache import command
from lab.machine import Firmware

_ROOT = Path(__file__).parent.parent
_DECIDES = ("lab", "src")  # folders whose changes may change a recording


class Provenance(Struct, frozen=True, omit_defaults=True):
    """Who made a recording; empty strings: it was made before the lab kept this."""

    date: str = ""
    qemu: str = ""
    firmware: str = ""  # packages of OVMF, shim and grub; empty: the kernel was started without UEFI
    commit: str = ""  # of gdrkit; with "+" if files were changed since


def provenance(firmware: Firmware | None) -> Provenance:
    """The provenance of a session that ends now."""
    packages = ", ".join(firmware.packages) if firmware is not None else ""
    return Provenance(_today(), _qemu(), packages, _commit())


def _today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


@functools.cache
def _qemu() -> str:
    return re.sub(
        r"^QEMU emulator version ", "", command("qemu-system-x86_64", "--version").decode().split("\n")[0]
    )


@functools.cache
def _commit() -> str:
    commit = command("git", "rev-parse", "--short", "HEAD", cwd=_ROOT).decode().strip()
    changed = command("git", "status", "--porcelain", "--", *_DECIDES, cwd=_ROOT)
    return commit + ("+" if changed else "")
