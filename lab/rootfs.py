"""The guest's file system: Debian packages unpacked into an initramfs, and the kernel's own modules.

Two archives are built once and cached: that of the packages (by their versions) and that of the modules
(by the kernel's version). A boot adds a third, small one with its cases.
"""

from __future__ import annotations

import compileall
import functools
import lzma
import re
import shutil
import sys
import tempfile
from pathlib import Path

from lab import cpio
from lab.cache import command, digest, folder, say
from lab.kernels import Flavour, Kernel, apt
from lab.modules import built
from lab.packages import merged_tree, unpack
from lab.sources import SOURCES
from lab.toolchain import inside

BASE = ("base-files", "busybox-static", "kmod", "python3", "zstd")
RDMA = (
    *BASE, "ibverbs-providers", "ibverbs-utils", "iproute2", "perftest", "python3-pyverbs", "rdma-core",
    "rdmacm-utils", "keyutils",
)  # fmt: skip
_DROPPED = (
    "usr/share/doc", "usr/share/locale", "usr/share/man", "usr/share/info", "usr/share/lintian",
    "usr/share/bug", "usr/share/perl*", "usr/lib/*/perl*", "usr/lib/*/gconv", "usr/share/zoneinfo",
    "usr/share/i18n", "usr/lib/python3.*/test", "usr/lib/python3.*/idlelib", "usr/lib/python3.*/lib2to3",
    "usr/lib/python3.*/ensurepip", "usr/lib/python3.*/tkinter", "usr/lib/python3.*/distutils",
    "usr/lib/python3.*/pydoc_data", "usr/lib/python3.*/config-*", "var/cache", "var/lib/dpkg",
    "usr/share/python3", "usr/share/perl5", "usr/share/gcc", "usr/share/gdb", "usr/share/bash-completion",
    "usr/lib/udev/hwdb.d", "usr/bin/dpkg*", "usr/bin/perl*", "usr/bin/openssl", "usr/share/misc",
)  # fmt: skip
_APPLETS = (
    "sh", "mount", "umount", "ls", "cat", "dmesg", "ip", "sleep", "poweroff", "uname", "find", "grep",
    "hostname", "mkdir", "ln", "cp", "rm", "sed", "tail", "head", "ps", "id", "stat", "true", "false",
)  # fmt: skip

TRANSPORT = ("virtio_pci", "virtio_console", "virtio_blk", "vfat", "nls_ascii", "efivarfs")
STACK = (  # modules of a machine with RDMA; crc32_generic: rdma_rxe requests it by name
    "ib_core", "ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe", "crc32_generic", "crc32c_generic", "veth",
    "dummy", "mlx5_ib", "drm", "virtio_net", "sha512_generic", "sha512_ssse3", "sha512_arm64",
)  # fmt: skip


_BUILTIN_KEPT = (b"unix", b"tpm", b"xz_dec")
"""Built-in modules whose .modinfo a guest keeps: kmod 29 reads 8 KiB for each line, 12 s for all of them."""


@functools.cache
def packages_archive(flavour: Flavour, names: tuple[str, ...]) -> Path:
    """The compressed initramfs of some packages and their dependencies. apt resolves these in seconds."""
    source = apt(flavour.architecture, flavour.archive)
    closure = source.closure(*names)
    home = folder(f"rootfs-{flavour.archive.name}-{flavour.architecture}")
    archive = home / f"{digest(closure, _APPLETS, _DROPPED, 4)}.cpio.zst"
    if archive.exists():
        return archive
    say(f"unpacking {len(closure)} packages of {flavour.archive.name}, {flavour.architecture}")
    root = home / "tree"
    shutil.rmtree(root, ignore_errors=True)
    merged_tree(root)
    for package in source.download(*closure):
        unpack(package, root)
    _finish(root, flavour.architecture)
    write_archive(archive, cpio.tree(root))
    shutil.rmtree(root)
    return archive


def _finish(root: Path, architecture: str) -> None:
    for pattern in _DROPPED:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    for applet in _APPLETS:
        if not any((root / folder / applet).exists() for folder in ("usr/bin", "usr/sbin")):
            (root / "usr/bin" / applet).symlink_to("busybox")
    for mount in ("proc", "sys", "dev", "run", "tmp", "etc/modprobe.d", "root", "work"):
        (root / mount).mkdir(parents=True, exist_ok=True)
    (root / "dev/null").touch()
    (root / "etc/hostname").write_text("lab\n")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    _compile(root, architecture)


def _compile(root: Path, architecture: str) -> None:
    """Compile Python's library here, once, instead of emulated in every boot."""
    (library,) = (root / "usr/lib").glob("python3.*")
    if architecture == "amd64":  # the distribution's own Python runs here
        inside(root, folder("keys"), "python3", "-S", "-E", "-m", "compileall", "-qq", "--invalidation-mode",
               "unchecked-hash", f"/usr/lib/{library.name}")  # fmt: skip
    elif library.name == f"python3.{sys.version_info[1]}":
        compileall.compile_dir(
            str(library), quiet=2, stripdir=str(root),
            invalidation_mode=compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH,  # type: ignore[attr-defined]
        )  # fmt: skip


def write_archive(path: Path, entries: dict[str, cpio.Entry]) -> None:
    """Write an initramfs, compressed for fast unpacking; the file appears only when it is complete."""
    part = path.with_suffix(".part")
    part.write_bytes(command("zstd", "-q", "-6", "-c", stdin=cpio.pack(entries)))
    part.replace(path)


def modules_archive(kernel: Kernel) -> Path:
    """The initramfs with the guest's modules of the kernel, and depmod's files."""
    wanted = TRANSPORT + STACK
    archive = kernel.home / f"modules-{digest(wanted, kernel.version, _BUILTIN_KEPT, 3)}.cpio.zst"
    if archive.exists():
        return archive
    say(f"choosing modules of {kernel.release}")
    root = kernel.home / "tree"
    shutil.rmtree(root, ignore_errors=True)
    target = root / "usr/lib/modules" / kernel.release
    for path in _closure(kernel, wanted):
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(kernel.modules / path, target / path)
    for name in ("modules.builtin", "modules.order"):
        shutil.copy(kernel.modules / name, target / name)
    modinfo = (kernel.modules / "modules.builtin.modinfo").read_bytes().split(b"\0")
    kept = [entry for entry in modinfo if entry.partition(b".")[0] in _BUILTIN_KEPT]
    (target / "modules.builtin.modinfo").write_bytes(b"".join(entry + b"\0" for entry in kept))
    config = kernel.file("config")
    place = root / ("boot" if config.parent.name == "boot" else f"usr/lib/modules/{kernel.release}")
    place.mkdir(exist_ok=True)
    shutil.copy(config, place)
    (root / "lib").symlink_to("usr/lib")
    command("depmod", "-b", root, kernel.release)
    (root / "lib").unlink()
    write_archive(archive, cpio.tree(root))
    shutil.rmtree(root)
    return archive


def imported_symbols(kernel: Kernel) -> frozenset[str]:
    """The symbols that the guest's modules and the lab's modules import. The guest keeps only these
    exports of the kernel, so that bundles and recordings stay small.
    """
    note = kernel.home / f"imported-{digest(TRANSPORT + STACK, SOURCES, kernel.version)}"
    if not note.exists():
        names: set[str] = {"module_layout"}
        with tempfile.TemporaryDirectory() as scratch:
            for number, path in enumerate(_closure(kernel, TRANSPORT + STACK)):
                data = (kernel.modules / path).read_bytes()
                Path(scratch, f"{number}.ko").write_bytes(
                    lzma.decompress(data) if path.endswith(".xz") else data
                )
            for name, data in built(kernel).items():
                Path(scratch, f"{name}.ko").write_bytes(data)
            listed = command(f"{kernel.cross}nm", "-u", *sorted(Path(scratch).iterdir())).decode()
        names |= {line.split()[-1] for line in listed.splitlines() if line.strip()[:2] in ("U ", "w ")}
        note.write_text("\n".join(sorted(names)) + "\n")
    return frozenset(note.read_text().split())


def headers_file(kernel: Kernel) -> dict[str, bytes]:
    """Module.symvers at its usual path, cut to the imported symbols."""
    wanted = imported_symbols(kernel)
    lines = (kernel.headers / "Module.symvers").read_text().splitlines(keepends=True)
    kept = "".join(line for line in lines if line.split("\t")[1] in wanted)
    return {f"usr/src/linux-headers-{kernel.release}/Module.symvers": kept.encode()}


def _closure(kernel: Kernel, wanted: tuple[str, ...]) -> list[str]:
    """Paths of modules and all their dependencies, from the modules.dep of the whole kernel."""
    if not (kernel.modules / "modules.dep").exists():
        command("depmod", "-b", kernel.image, kernel.release)
    needs: dict[str, list[str]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    names = {re.sub(r"\.ko(\.\w+)?$", "", path.rsplit("/", 1)[1]).replace("-", "_"): path for path in needs}
    chosen: dict[str, None] = {}
    for name in wanted:
        if name in names:  # otherwise built in, or not part of this kernel
            chosen.update(dict.fromkeys([names[name], *needs[names[name]]]))
    return list(chosen)
