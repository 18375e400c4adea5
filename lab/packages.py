"""Debian packages without installing any: a private apt root in the cache, and unpacked trees.

The machine's own package database and kernel are never touched: apt runs with its own state folder
and an empty dpkg status, so that it resolves a guest's whole closure as for an empty machine.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from msgspec import Struct

from lab.cache import LabError, command, folder

_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITES = (
    ("http://deb.debian.org/debian", "bookworm"),
    ("http://deb.debian.org/debian", "bookworm-updates"),
    ("http://deb.debian.org/debian-security", "bookworm-security"),
    ("http://deb.debian.org/debian", "bookworm-backports"),
)
_LISTS_LIVE_SECONDS = 24 * 3600.0  # package lists older than a day are fetched anew


class Package(Struct, frozen=True):
    """One downloaded package."""

    name: str
    version: str
    file: Path


class Apt:
    """apt for one architecture, on its own root. Creating it fetches the lists if they are old."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture
        self.root = folder("apt-" + architecture)
        for part in ("state/lists/partial", "cache/archives/partial"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        lines = [f"deb [signed-by={_KEYRING}] {uri} {suite} main\n" for uri, suite in _SUITES]
        (self.root / "sources.list").write_text("".join(lines))
        stamp = self.root / "updated"
        if not stamp.exists() or time.time() - stamp.stat().st_mtime > _LISTS_LIVE_SECONDS:
            self._run("apt-get", "update")
            stamp.touch()

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
        """The version that would be installed; in a suite such as bookworm-backports if one is given."""
        shown = self._run("apt-cache", "show", "--no-all-versions", _in_suite(name, suite))
        found = re.search(r"^Version: (.+)$", shown, re.MULTILINE)
        if found is None:
            raise LabError(f"no package {name} for {self.architecture}")
        return found[1]

    def dependency(self, name: str, pattern: str, suite: str | None = None) -> str:
        """The first dependency of a package that matches a pattern: how a meta package names its kernel."""
        shown = self._run("apt-cache", "show", "--no-all-versions", _in_suite(name, suite))
        depends = re.search(r"^Depends: (.+)$", shown, re.MULTILINE)
        found = re.search(pattern, depends[1]) if depends else None
        if found is None:
            raise LabError(f"{name} for {self.architecture} names no {pattern}")
        return found[0]

    def closure(self, *names: str) -> tuple[str, ...]:
        """Every package, as name=version, that an empty machine would get with these."""
        plan = self._run("apt-get", "install", "--simulate", "-y", "--no-install-recommends", *names)
        return tuple(
            f"{name}={version}" for name, version in re.findall(r"^Inst (\S+) \((\S+)", plan, re.MULTILINE)
        )

    def download(self, *names: str) -> tuple[Package, ...]:
        """Package files, fetched once and kept. Names may carry `=version`."""
        archives = self.root / "cache/archives"
        listed = self._run("apt-get", "download", "--print-uris", *names)
        files = {file.split("_")[0]: file for file in re.findall(r"^'[^']*' (\S+)", listed, re.MULTILINE)}
        wanting = [name for name in names if not (archives / files[name.split("=")[0]]).exists()]
        if wanting:
            self._run("apt-get", "download", *wanting, cwd=archives)
        return tuple(_package(archives / files[name.split("=")[0]]) for name in names)


def _in_suite(name: str, suite: str | None) -> str:
    return f"{name}/{suite}" if suite else name


def _package(file: Path) -> Package:
    name, version, _ = file.name.split("_")
    return Package(name, version.replace("%3a", ":"), file)


def unpack(package: Package, root: Path) -> None:
    """A package's files into a tree, through the tree's own symbolic links (merged /usr)."""
    root.mkdir(parents=True, exist_ok=True)
    archive = command("dpkg-deb", "--fsys-tarfile", package.file)
    command("tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", root, stdin=archive)
