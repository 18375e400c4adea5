"""Real kernel modules: Debian's own kernel packages, downloaded once and unpacked outside the repository.

    root = modules_of("6.12", "arm64")          # .../usr/lib/modules/6.12.117+deb13-arm64
    tool = unpacked("efitools", "1.9", "amd64") / "usr/bin/cert-to-efi-sig-list"

The packages are those of `PINNED`, by version and hash, so that a release of Debian does not change a run.
GDRKIT_NEWEST_KERNELS=1 takes the newest ones instead; so does, with a warning, a package that its mirror has
no longer: a mirror removes what a successor replaces.

apt asks the mirrors of this machine, with package lists, status and cache of its own, so it does not change
the system and needs no privileges. Unpacked files are kept, so later runs need no network. Where apt or the
mirror is not available, the test is skipped with the command that helps; with CI=true it fails instead.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import NoReturn

import pytest

ARCHITECTURES = ("amd64", "arm64")
KERNELS = (("6.1", "amd64"), ("6.12", "amd64"), ("6.12", "arm64"))
"""The kernels that tests read: uncompressed and RSA-signed, and .ko.xz and ECDSA-signed on both machines."""

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gdrkit" / "debian"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = ("bookworm", "bookworm-security", "trixie")
NEWEST = os.environ.get("GDRKIT_NEWEST_KERNELS", "") not in ("", "0")
PINNED = {
    ("linux-image-amd64", "6.1", "amd64"): (
        "linux-image-6.1.0-50-amd64",
        "6.1.176-1",
        "7b5597492a0a65aee61985a492e6bcc3f2cde830072a0e3b3d8c7e1b90279bd3",
    ),
    ("linux-image-amd64", "6.12", "amd64"): (
        "linux-image-6.12.117+deb13-amd64",
        "6.12.117-1",
        "ca712d36790184f6ac125ce2b20ea4e2202ae6bb7817b7de268f1f0115ccda73",
    ),
    ("linux-image-arm64", "6.12", "arm64"): (
        "linux-image-6.12.117+deb13-arm64",
        "6.12.117-1",
        "73805585385c78e048e63fdfba66da36bab724c2cdebd96a3055a8a4f1ae287a",
    ),
    ("efitools", "1.9", "amd64"): (
        "efitools",
        "1.9.2-3.5",
        "d78bfff8f9d3b021652cb6983107caded0003e7e7c4afb42382160c7fad09956",
    ),
}
"""The package, its version and the SHA-256 of its file, of stable's main archive, which keeps a version from
one point release to the next."""

_failures: list[str] = []


@functools.cache
def modules_of(version: str, architecture: str) -> Path:
    """The directory with `kernel/` of Debian's kernel of a version such as "6.12"."""
    root = unpacked(f"linux-image-{architecture}", version, architecture)
    (directory,) = [*root.glob("usr/lib/modules/*"), *root.glob("lib/modules/*")]
    return directory


def module(version: str, architecture: str, name: str) -> Path:
    """One module file of a kernel, with any compression."""
    return _modules(version, architecture)[name]


@functools.cache
def _modules(version: str, architecture: str) -> dict[str, Path]:
    """The module files of a kernel by name: one walk for all that a process asks for."""
    walk = os.walk(modules_of(version, architecture) / "kernel")
    return {file.partition(".ko")[0]: Path(folder, file) for folder, _, files in walk for file in files}


@functools.cache
def unpacked(package: str, version: str, architecture: str) -> Path:
    """The files of Debian's package of a version; for a kernel's metapackage, those of the kernel."""
    _, pinned, _ = PINNED[package, version, architecture]
    directory = _CACHE / f"{package}-{'newest' if NEWEST else pinned}-{architecture}"
    if not directory.exists() and _failures:
        _give_up(_failures[0])  # an unreachable mirror is tried once, not once for each test
    if directory.exists():
        return directory
    try:
        _CACHE.mkdir(parents=True, exist_ok=True)
        (_CACHE / "lock").touch()
    except OSError as error:
        _unavailable(
            f"{_CACHE}: {error.strerror}", "point XDG_CACHE_HOME at a folder that can be written to"
        )
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test runs may need the same download
        if not directory.exists():
            _unpack(package, version, architecture, directory)
    return directory


def _unpack(package: str, version: str, architecture: str, directory: Path) -> None:
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            _unavailable(f"there is no {tool} here", "run the tests on Debian or Ubuntu")
    if not Path(_KEYRING).exists():
        _unavailable("Debian's keys are missing", "sudo apt-get install debian-archive-keyring")
    apt = _apt()
    name, pinned, digest = PINNED[package, version, architecture]
    wanted = f"{name}:{architecture}={pinned}"
    if NEWEST or not _shown(apt, wanted):
        wanted, digest = _resolve(apt, package, version, architecture), ""
        if not NEWEST:
            warnings.warn(f"the mirror has no {name} {pinned} any more: {wanted} is read", stacklevel=2)
    fresh = directory.with_name(directory.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    debs = fresh / "debs"
    debs.mkdir()
    _run(["apt-get", *apt, "-qq", "download", wanted], "check the network, then run the tests again", debs)
    for deb in debs.iterdir():
        if digest and hashlib.sha256(deb.read_bytes()).hexdigest() != digest:
            pytest.fail(f"{deb.name} is not the file that PINNED names")
        _run(["dpkg-deb", "-x", str(deb), str(fresh)], "free some disk space, then run the tests again")
    shutil.rmtree(debs)
    fresh.rename(directory)


@functools.cache
def _apt() -> list[str]:
    """Options that give apt folders of its own, with the lists as they are now: the mirror removes a package
    when its successor arrives."""
    home = _CACHE / "apt"
    for folder in ("lists/partial", "archives/partial"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "status").touch()
    (home / "sources.list").write_text("".join(f"deb [signed-by={_KEYRING}] {row}\n" for row in _sources()))
    options = {
        "Dir::Etc::SourceList": home / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": home / "lists",
        "Dir::State::Status": home / "status",
        "Dir::Cache": home,
        "Dir::Cache::pkgcache": "pkgcache.bin",  # images for containers keep none, and parse each time
        "Dir::Cache::srcpkgcache": "srcpkgcache.bin",
        "APT::Sandbox::User": "root",  # so that the folders need not belong to _apt
        "Acquire::http::Timeout": "30",
        "Acquire::Languages": "none",
        "APT::Update::Error-Mode": "any",  # else an unreachable mirror is only a warning
    }
    given = [f"{name}={value}" for name, value in options.items()]
    given += [f"APT::Architectures::={architecture}" for architecture in ARCHITECTURES]
    apt = [word for option in given for word in ("-o", option)]
    _run(["apt-get", *apt, "-qq", "update"], "check the network, then run the tests again")
    return apt


def _sources() -> list[str]:
    """The suites at the mirrors from which this machine installs Debian."""
    form = "$(ORIGIN) $(CODENAME) $(REPO_URI)"
    listed = _run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"], "sudo apt-get update"
    )
    rows = [row.split() for row in listed.stdout.splitlines() if row.startswith("Debian ")]
    mirrors = {codename.endswith("-security"): address for _, codename, address in rows}
    if mirrors.keys() != {False, True}:
        _unavailable(
            "this machine installs nothing from Debian", "run the tests on Debian, after apt-get update"
        )
    return [f"{mirrors[suite.endswith('-security')]} {suite} main" for suite in _SUITES]


def _shown(apt: list[str], package: str) -> str:
    """What the lists say of a package; "" of one that they lack."""
    command = ["apt-cache", *apt, "show", package]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False).stdout


def _resolve(apt: list[str], package: str, version: str, architecture: str) -> str:
    """The newest package, as NAME:ARCHITECTURE=VERSION."""
    for stanza in _shown(apt, f"{package}:{architecture}").split("\n\n"):  # newest first
        fields = dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE))
        if not fields.get("Version", "").startswith(version + "."):
            continue
        if not package.startswith("linux-image-"):
            return f"{package}:{architecture}={fields['Version']}"
        name = fields["Depends"].partition(" ")[0].partition(":")[0]
        return f"{name}:{architecture}={fields['Version']}"
    _unavailable(f"Debian has no {package} {version}", "look at the versions in tests/debian_kernels.py")


def _run(command: list[str], remedy: str, directory: Path | None = None) -> subprocess.CompletedProcess[str]:
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        _unavailable(f"{command[0]} took more than ten minutes", remedy)
    if done.returncode:
        _unavailable(f"{command[0]} failed: {done.stderr.strip()[-300:]}", remedy)
    return done


def _unavailable(reason: str, remedy: str) -> NoReturn:
    message = f"{reason}; to run this test: {remedy}"
    _failures.append(message)
    _give_up(message)


def _give_up(message: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
