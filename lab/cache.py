"""Where the lab keeps what it fetched and built: outside the repository, by kernel version."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path


class LabError(Exception):
    """The lab itself could not do its work: no network, no QEMU, a guest that never finished.

    Never a statement about a prediction.
    """


def folder(*parts: str) -> Path:
    """A folder of the cache, created. `GDRKIT_LAB_CACHE` moves it; else XDG_CACHE_HOME, else ~/.cache."""
    base = os.environ.get("GDRKIT_LAB_CACHE")
    root = (
        Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "gdrkit/lab"
    )
    path = root.joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(*parts: object) -> str:
    """A short name for whatever determines a cached result."""
    return hashlib.sha256("\0".join(repr(part) for part in parts).encode()).hexdigest()[:16]


_STARTED = time.monotonic()


def say(text: str) -> None:
    """Progress, on standard error, with seconds since the start."""
    print(f"[{time.monotonic() - _STARTED:6.1f} s] {text}", file=sys.stderr, flush=True)


def command(*argv: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> bytes:
    """Standard output of a host command. Raises LabError with its complaint, or naming the missing tool."""
    if shutil.which(str(argv[0])) is None:
        raise LabError(f"{argv[0]} is not installed; {apt_command()}")
    done = subprocess.run(
        [str(part) for part in argv], cwd=cwd, input=stdin, capture_output=True, check=False
    )
    if done.returncode != 0:
        tail = (done.stderr or done.stdout).decode("utf-8", "replace")[-2000:]
        raise LabError(f"{' '.join(str(part) for part in argv)}: exit {done.returncode}\n{tail}")
    return done.stdout


TOOLS = {  # what the lab runs on this machine, and the Debian package that brings it
    "qemu-system-x86_64": "qemu-system-x86",
    "make": "make",
    "gcc": "gcc",
    "objcopy": "binutils",
    "openssl": "openssl",
    "zstd": "zstd",
    "xz": "xz-utils",
    "depmod": "kmod",
    "dpkg-deb": "dpkg",
}
FILES = {
    "/usr/share/OVMF/OVMF_CODE_4M.ms.fd": "ovmf",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def missing_packages(tools: dict[str, str] = TOOLS) -> tuple[str, ...]:
    """Debian packages that the lab lacks on this machine, sorted."""
    lacking = {package for tool, package in tools.items() if shutil.which(tool) is None}
    lacking |= {package for file, package in FILES.items() if not Path(file).exists()}
    return tuple(sorted(lacking))


def apt_command() -> str:
    """The one command that makes the lab runnable."""
    return "sudo apt-get install -y " + " ".join(missing_packages() or ("qemu-system-x86", "ovmf"))
