"""The lab's cache of downloaded and built files: outside the repository, by kernel version."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path


class LabError(Exception):
    """A failure of the lab itself: no network, no QEMU, a guest that never finished. Never about a
    prediction.
    """


def folder(*parts: str) -> Path:
    """A folder of the cache, created if missing. Below GDRKIT_LAB_CACHE, else XDG_CACHE_HOME, else
    ~/.cache.
    """
    base = os.environ.get("GDRKIT_LAB_CACHE")
    root = (
        Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gdrkit/lab"
    )
    path = root.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(*parts: object) -> str:
    """A short name for everything that determines a cached result."""
    return hashlib.sha256("\0".join(repr(part) for part in parts).encode()).hexdigest()[:16]


_STARTED = time.monotonic()


def say(text: str) -> None:
    """Print progress to standard error, with seconds since the start."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def command(*argv: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> bytes:
    """Standard output of a host command. Raises LabError with its error output, or with the missing tool."""
    if shutil.which(str(argv[0])) is None:
        raise LabError(f"{argv[0]} is not installed; {apt_command()}")
    done = subprocess.run(
        [str(part) for part in argv], cwd=cwd, input=stdin, capture_output=True, check=False
    )
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).decode("utf-8", "replace")[-2000:]
        raise LabError(f"{' '.join(str(part) for part in argv)}: exit {done.returncode}\n{tail}")
    return done.stdout


TOOLS = {  # programs that the lab runs on this machine, and their Debian packages
    "qemu-system-x86_64": "qemu-system-x86",
    "apt-get": "apt",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "git": "git",
    "tar": "tar",
    "make": "make",
    "gcc": "gcc",
    "objcopy": "binutils",
    "openssl": "openssl",
    "zstd": "zstd",
    "xz": "xz-utils",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
}
ARM_TOOLS = {"qemu-system-aarch64": "qemu-system-arm", "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"}
FILES = {
    "/usr/share/OVMF/OVMF_CODE_4M.ms.fd": "ovmf",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def missing_packages(tools: dict[str, str] = TOOLS) -> tuple[str, ...]:
    """Debian packages that the lab needs and this machine does not have, sorted."""
    missing = {package for tool, package in tools.items() if shutil.which(tool) is None}
    missing |= {package for file, package in FILES.items() if not Path(file).exists()}
    return tuple(sorted(missing))


def require_tools(architecture: str) -> None:
    """Raises LabError that names everything that is missing for guests of an architecture, before anything
    is downloaded or built.
    """
    tools = TOOLS | (ARM_TOOLS if architecture == "arm64" else {})
    missing = [tool for tool in tools if shutil.which(tool) is None]
    missing += [file for file in FILES if not Path(file).exists()]
    if missing:
        packages = " ".join(missing_packages(tools))
        raise LabError(f"missing: {', '.join(missing)}; sudo apt-get install -y {packages}")


def apt_command() -> str:
    """The command that installs what the lab needs."""
    return "sudo apt-get install -y " + " ".join(missing_packages() or ("qemu-system-x86", "ovmf"))
