"""Debian packages without installation: a private apt root in the cache, and unpacked trees.

The machine's own package database and kernel are never touched: apt runs with its own state folder and an
empty dpkg status, so it resolves all dependencies of a guest as for an empty machine.
"""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

from msgspec import Struct

from lab.cache import LabError, command, folder


class Archive(Struct, frozen=True):
    """A distribution's package archive and its signing keys."""

    name: str
    suites: tuple[tuple[str, str], ...]  # (address, suite)
    keyring: str  # a file; empty: downloaded from the archive and checked against `fingerprint`
    fingerprint: str = ""
    own_tools: bool = False  # its kernels' build tools and compiler are too new for Debian 12


DEBIAN = Archive(
    "debian",
    (
        ("http://deb.debian.org/debian", "bookworm"),
        ("http://deb.debian.org/debian", "bookworm-updates"),
        ("http://deb.debian.org/debian-security", "bookworm-security"),
        ("http://deb.debian.org/debian", "bookworm-backports"),
    ),
    "/usr/share/keyrings/debian-archive-keyring.gpg",
)
DEBIAN_13 = Archive(
    "debian-13",
    (
        ("http://deb.debian.org/debian", "trixie"),
        ("http://deb.debian.org/debian", "trixie-updates"),
        ("http://deb.debian.org/debian-security", "trixie-security"),
        ("http://deb.debian.org/debian", "trixie-backports"),
    ),
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    own_tools=True,
)
UBUNTU = Archive(
    "ubuntu",
    (
        ("http://archive.ubuntu.com/ubuntu", "jammy"),
        ("http://archive.ubuntu.com/ubuntu", "jammy-updates"),
        ("http://security.ubuntu.com/ubuntu", "jammy-security"),
    ),
    "",
    "F6ECB3762474EDA9D21B7022871920D1991BC93C",  # Ubuntu Archive Automatic Signing Key (2018)
)
_LISTS_LIVE_SECONDS = 24 * 3600.0  # package lists older than a day are downloaded again


class Package(Struct, frozen=True):
    """One downloaded package."""

    name: str
    version: str
    file: Path


class Apt:
    """apt for one archive and architecture, with its own root. Creating it updates old package lists."""

    def __init__(self, architecture: str, archive: Archive = DEBIAN) -> None:
        self.architecture, self.archive = architecture, archive
        self.root = folder(f"apt-{archive.name}-{architecture}")
        for part in ("state/lists/partial", "cache/archives/partial"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        stamp = self.root / "updated"
        if not stamp.exists() or time.time() - stamp.stat().st_mtime > _LISTS_LIVE_SECONDS:
            self._sources(f"signed-by={archive.keyring or self._fetch_keyring()}")
            self._run("apt-get", "update")
            stamp.touch()

    def _sources(self, option: str) -> None:
        lines = [f"deb [{option}] {address} {suite} main\n" for address, suite in self.archive.suites]
        (self.root / "sources.list").write_text("".join(lines))

    def _fetch_keyring(self) -> str:
        """The archive's own keyring package, trusted because it contains the expected key."""
        self._sources("trusted=yes")
        self._run("apt-get", "update")
        (package,) = self.download("ubuntu-keyring")
        unpack(package, self.root / "keyring")
        keyring = self.root / "keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg"
        if self.archive.fingerprint not in fingerprints(keyring.read_bytes()):
            raise LabError(f"the keyring of {self.archive.name} does not contain {self.archive.fingerprint}")
        return str(keyring)

    def _run(self, tool: str, *arguments: str, cwd: Path | None = None) -> str:
        options = {
            "Dir::State": self.root / "state",
            "Dir::State::status": self.root / "status",
            "Dir::Cache": self.root / "cache",
            "Dir::Etc::sourcelist": self.root / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "APT::Architecture": self.architecture,
            "APT::Architectures": self.architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Acquire::Retries": "3",
        }
        flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
        return command(tool, *flags, *arguments, cwd=cwd).decode()

    def version(self, name: str, suite: str | None = None) -> str:
        """The version that would be installed, from a suite such as bookworm-backports if given."""
        shown = self._run("apt-cache", "show", "--no-all-versions", _in_suite(name, suite))
        found = re.search(r"^Version: (.+)$", shown, re.MULTILINE)
        if found is None:
            raise LabError(f"no such package for {self.architecture}: {name}")
        return found[1]

    def dependencies(self, name: str, pattern: str, suite: str | None = None) -> tuple[str, ...]:
        """Every dependency of a package that matches a pattern without groups, each once."""
        shown = self._run("apt-cache", "show", "--no-all-versions", _in_suite(name, suite))
        depends = re.search(r"^Depends: (.+)$", shown, re.MULTILINE)
        return tuple(dict.fromkeys(re.findall(pattern, depends[1]))) if depends else ()

    def dependency(self, name: str, pattern: str, suite: str | None = None) -> str:
        """The first dependency of a package that matches a pattern, such as the kernel of a meta package."""
        found = self.dependencies(name, pattern, suite)
        if not found:
            raise LabError(f"{name} for {self.architecture} has no dependency {pattern}")
        return found[0]

    def closure(self, *names: str) -> tuple[str, ...]:
        """Every package, as name=version, that an empty machine would install for these."""
        plan = self._run("apt-get", "install", "--simulate", "-y", "--no-install-recommends", *names)
        return tuple(
            f"{name}={version}" for name, version in re.findall(r"^Inst (\S+) \((\S+)", plan, re.MULTILINE)
        )

    def download(self, *names: str) -> tuple[Package, ...]:
        """Package files, downloaded once and cached. Names may include `=version`."""
        archives = self.root / "cache/archives"
        listed = self._run("apt-get", "download", "--print-uris", *names)
        files = {file.split("_")[0]: file for file in re.findall(r"^'[^']*' (\S+)", listed, re.MULTILINE)}
        missing = [name for name in names if not (archives / files[name.split("=")[0]]).exists()]
        if missing:
            self._run("apt-get", "download", *missing, cwd=archives)
        return tuple(_package(archives / files[name.split("=")[0]]) for name in names)


def fingerprints(keyring: bytes) -> tuple[str, ...]:
    """Fingerprints of the primary keys in a binary OpenPGP keyring (RFC 4880, 4.2 and 12.2)."""
    found, at = [], 0
    while at < len(keyring):
        head, at = keyring[at], at + 1
        if head & 0x40:  # new format
            size, at, tag = keyring[at], at + 1, head & 0x3F
            if size >= 192:
                size, at = ((size - 192) << 8) + keyring[at] + 192, at + 1
        else:
            width = 1 << (head & 3)
            size, at, tag = int.from_bytes(keyring[at : at + width], "big"), at + width, (head >> 2) & 0xF
        body, at = keyring[at : at + size], at + size
        if tag == 6:  # public key
            found.append(hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body).hexdigest().upper())
    return tuple(found)


def _in_suite(name: str, suite: str | None) -> str:
    return f"{name}/{suite}" if suite else name


def _package(file: Path) -> Package:
    name, version, _ = file.name.split("_")
    return Package(name, version.replace("%3a", ":"), file)


def merged_tree(root: Path) -> None:
    """The folders of an empty machine whose /bin, /sbin and /lib are in /usr, as with usrmerge."""
    for top in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / top).mkdir(parents=True, exist_ok=True)
        if not (root / top).is_symlink():
            (root / top).symlink_to(f"usr/{top}")


def unpack(package: Package, root: Path) -> None:
    """Unpack a package into a tree, following the tree's symbolic links (merged /usr)."""
    root.mkdir(parents=True, exist_ok=True)
    archive = command("dpkg-deb", "--fsys-tarfile", package.file)
    command("tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root, stdin=archive)
