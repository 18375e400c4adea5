"""Distribution kernels: their current versions, and their files in the cache."""

from __future__ import annotations

import functools
import lzma
import re
from pathlib import Path

from msgspec import Struct

from lab.cache import LabError, command, folder, say
from lab.packages import DEBIAN, DEBIAN_13, UBUNTU, Apt, Archive, merged_tree, unpack
from lab.toolchain import unpack_tools


class Flavour(Struct, frozen=True):
    """A kernel that the lab can boot, and its meta package."""

    name: str
    architecture: str  # Debian's name: amd64, arm64
    image: str  # meta package
    headers: str
    suite: str | None = None
    archive: Archive = DEBIAN
    symbol_versions: bool = True  # CONFIG_MODVERSIONS
    exports_mm_kobj: bool = True  # below which an RDMA stack lists peer-memory clients


FLAVOURS = (
    Flavour("6.1-amd64", "amd64", "linux-image-amd64", "linux-headers-amd64"),
    Flavour(
        "6.12-amd64",
        "amd64",
        "linux-image-amd64",
        "linux-headers-amd64",
        "bookworm-backports",
        exports_mm_kobj=False,
    ),
    Flavour(
        "6.12-debian13-amd64",
        "amd64",
        "linux-image-amd64",
        "linux-headers-amd64",
        "trixie-security",
        DEBIAN_13,
        exports_mm_kobj=False,
    ),
    Flavour(
        "7-debian13-amd64",
        "amd64",
        "linux-image-amd64",
        "linux-headers-amd64",
        "trixie-backports",
        DEBIAN_13,
        symbol_versions=False,
        exports_mm_kobj=False,
    ),
    Flavour("6.1-arm64", "arm64", "linux-image-arm64", "linux-headers-arm64"),
    Flavour(
        "6.8-ubuntu-amd64",
        "amd64",
        "linux-image-generic-hwe-22.04",
        "linux-headers-generic-hwe-22.04",
        archive=UBUNTU,
    ),
)


class Kernel(Struct, frozen=True):
    """A kernel in the cache."""

    flavour: Flavour
    release: str  # uname -r
    version: str  # of its Debian package
    image: Path  # unpacked image package
    headers: Path  # the folder for `make -C`
    tools: Path | None = None  # a tree with the distribution's own compiler; None: this machine's compiler

    def file(self, name: str) -> Path:
        """vmlinuz, config or System.map: in /boot, or beside the modules as in Debian since 7.2."""
        old = self.image / "boot" / f"{name}-{self.release}"
        return old if old.exists() else self.modules / name

    def module(self, name: str) -> bytes:
        """One of the kernel's own modules, decompressed."""
        (path,) = self.modules.glob(f"kernel/**/{name}.ko*")
        content = path.read_bytes()
        if path.suffix == ".zst":
            return command("zstd", "-dcq", path)
        return lzma.decompress(content) if path.suffix == ".xz" else content

    @property
    def modules(self) -> Path:
        return self.image / "lib/modules" / self.release

    @property
    def own_headers(self) -> str:
        """The folder for `make -C` as the compiler sees it."""
        return f"/{self.headers.relative_to(self.tools)}" if self.tools else str(self.headers)

    @property
    def cross(self) -> str:
        """Prefix of the compiler's name."""
        return "aarch64-linux-gnu-" if self.flavour.architecture == "arm64" else ""

    @property
    def home(self) -> Path:
        """The folder for files built for exactly this kernel."""
        return folder(self.flavour.name, self.release)


def flavour(name: str) -> Flavour:
    """The flavour with that name. Raises LabError if there is none."""
    for candidate in FLAVOURS:
        if candidate.name == name:
            return candidate
    raise LabError(f"no such kernel: {name} (of {', '.join(f.name for f in FLAVOURS)})")


@functools.cache
def apt(architecture: str, archive: Archive = DEBIAN) -> Apt:
    """The apt root of an architecture."""
    return Apt(architecture, archive)


@functools.cache
def kernel(name: str) -> Kernel:
    """The current version of a flavour, downloaded and unpacked if it is not in the cache."""
    wanted = flavour(name)
    source = apt(wanted.architecture, wanted.archive)
    image_name = source.dependency(wanted.image, r"linux-image-\d[\w.+-]+", wanted.suite)
    headers_name = source.dependency(wanted.headers, r"linux-headers-\d[\w.+-]+", wanted.suite)
    release = image_name.removeprefix("linux-image-")
    home = folder(wanted.name, release)
    image, headers_root = home / "image", home / "headers"
    parts = [image_name, *source.dependencies(image_name, r"linux-(?:base|binary|modules)-\d[\w.+-]+")]
    if wanted.archive is UBUNTU:
        parts.append(f"linux-modules-extra-{release}")
    packages = source.download(*parts)
    if not (home / "unpacked").exists():
        say(f"unpacking {image_name} {packages[0].version}")
        merged_tree(image)
        for package in packages:
            unpack(package, image)
        _headers(wanted, headers_name, headers_root)
        (home / "unpacked").touch()
    headers = headers_root / "usr/src" / headers_name
    tools = headers_root if wanted.archive.own_tools else None
    return Kernel(wanted, release, packages[0].version, image, headers, tools)


def _headers(wanted: Flavour, headers_name: str, root: Path) -> None:
    """Unpack headers and build tools; the tools are for this machine's architecture."""
    source = apt(wanted.architecture, wanted.archive)
    if wanted.archive.own_tools:
        unpack_tools(source, headers_name, root)
        return
    if wanted.archive is UBUNTU:  # the headers link to the package with the common files
        common = source.dependency(headers_name, r"linux-[\w.+-]*headers-\d[\w.+-]+")
        for package in source.download(headers_name, common):
            unpack(package, root)
        return
    common = source.dependency(headers_name, r"linux-headers-[\w.+-]+-common")
    kbuild = source.dependency(headers_name, r"linux-kbuild-[\w.+-]+")
    for package in (*source.download(headers_name, common), *apt("amd64").download(kbuild)):
        unpack(package, root)
    makefile = root / "usr/src" / headers_name / "Makefile"
    makefile.write_text(re.sub(r"/usr/src/", f"{root}/usr/src/", makefile.read_text()))
