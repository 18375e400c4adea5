"""Programs of the system with which machines are built."""

from __future__ import annotations

import shutil

SYSTEM = "/usr/sbin:/sbin:/usr/bin:/bin"
"""Debian has depmod in /usr/sbin, which the PATH of its users lacks: login.defs(5), ENV_PATH."""


class ProgramMissingError(Exception):
    """A program is not installed; the text says which, and the command that installs it."""


def found(name: str) -> str | None:
    """The path of a program, in PATH or where the system has its own."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM)


def depmod() -> str:
    """The path of depmod. Raises ProgramMissingError."""
    return needed("depmod")


def needed(name: str) -> str:
    """The path of a program of kmod or pciutils. Raises ProgramMissingError."""
    if path := found(name):
        return path
    package = "pciutils" if name == "lspci" else "kmod"
    raise ProgramMissingError(f"{name} is not installed: sudo apt install {package}")
