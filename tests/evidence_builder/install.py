"""Install a node's modules: in lib/modules, among the loaded modules, in the tables of depmod and modpost.

Formats: depmod(8) and modules.dep(5), Linux kernel/module/procfs.c and sysfs.c, scripts/mod/modpost.c."""

from __future__ import annotations

import functools
import lzma
import posixpath
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from backports import zstd

from tests.evidence_builder.modules import Kernel, Shape, checksum, vmlinux_exports
from tests.evidence_builder.tree import Tree
from tests.index_builder import with_indexes
from tests.module_builder import Export, build_module, make_key, sign

FLAGS = {
    "x86_64": "SMP preempt mod_unload modversions ",
    "aarch64": "SMP preempt mod_unload modversions aarch64",
}
_CORE = "kernel/drivers/infiniband/core"
INTREE = {
    "mlx5_ib": "kernel/drivers/infiniband/hw/mlx5",
    "mlx5_core": "kernel/drivers/net/ethernet/mellanox/mlx5/core",
    "mlxfw": "kernel/drivers/net/ethernet/mellanox/mlxfw",
}
HYPHENS = {"nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nvidia_peermem"}


class Build(NamedTuple):
    """One module file of a node: its shape, its build, and its path."""

    shape: Shape
    folder: str  # below lib/modules/<release>
    build: str  # tag of the build, which determines the checksums of its exports
    signer: str = ""  # "" for unsigned
    compress: str = ""  # "", xz or zst
    against: Mapping[
        str, str
    ] = {}  # providing module -> tag of the build whose checksums it was linked with
    loaded: bool = False
    file_name: str = ""
    release: str = ""  # of the kernel it was built for, if not the running one
    users: int = 0  # references in addition to those of other modules
    broken: str = ""  # how the file is damaged; "" if it is not
    memory_only: bool = False  # loaded, but its file is not in the evidence
    root: str = ""  # of a driver container, for modules that the host's depmod does not list
    trusted: bool = True  # whether the running kernel knows the signer

    @property
    def module(self) -> str:
        """The name that kmod uses: that of the file."""
        return posixpath.basename(self.path).split(".ko")[0].replace("-", "_")

    @property
    def path(self) -> str:
        name = self.shape.name
        plain = name.replace("_", "-") if name in HYPHENS else name
        return (
            f"{self.folder}/{self.file_name or plain + '.ko'}{'.' + self.compress if self.compress else ''}"
        )


def intree(shapes: Mapping[str, Shape], kernel: Kernel, signer: str, compress: str) -> list[Build]:
    """The in-tree modules, at their paths."""
    return [
        Build(shape, INTREE.get(name, _CORE), kernel.release, signer, compress)
        for name, shape in shapes.items()
    ]


@functools.cache
def _compressed(content: bytes, kind: str) -> bytes:
    if kind == "xz":
        return lzma.compress(content, preset=0, check=lzma.CHECK_CRC32)
    return zstd.compress(content, 1) if kind == "zst" else content


def image(build: Build, kernel: Kernel, providers: Mapping[str, Build]) -> bytes:
    """The module's bytes: built and signed, not compressed."""
    shape = build.shape
    imports: dict[str, int | None] = {}
    for symbol, provider in shape.imports.items():
        tag = build.against.get(provider) or (providers[provider].build if provider in providers else "")
        imports[symbol] = checksum(symbol, tag or build.release or kernel.release)
    extra: list[tuple[str, str]] = []
    if shape.version:
        extra.append(("version", shape.version))
    extra.append(("srcversion", srcversion(build)))
    extra += [("import_ns", space) for space in shape.import_ns]
    flags = FLAGS[kernel.architecture]
    content = build_module(
        shape.name,
        imports=imports,
        exports={symbol: Export(checksum(symbol, build.build)) for symbol in shape.exports},
        license=shape.license,
        depends=sorted({provider for provider in shape.imports.values() if provider}),
        parameters=shape.parameters,
        modinfo=extra,
        vermagic=f"{build.release or kernel.release} {flags}",
        machine=kernel.architecture,
        module_layout=checksum("module_layout", build.release or kernel.release),
        intree=build.folder.startswith("kernel/drivers"),
    )
    if build.signer:
        content = sign(content, make_key(build.signer), digest="sha512")
    if build.broken == "altered":  # one byte of code, after signing
        content = content[:64] + bytes([content[64] ^ 1]) + content[65:]
    return content


def srcversion(build: Build) -> str:
    """A srcversion: 23 or 24 upper-case hex digits (modpost's MD4 of the sources)."""
    return f"{zlib.crc32(build.shape.name.encode()):08X}{zlib.crc32(build.build.encode()):08X}{'B7D29F01'}"[
        :24
    ]


def write(tree: Tree, builds: list[Build], kernel: Kernel, spec: Mapping[str, Any]) -> None:
    """Write all module files, the tables of depmod, and the loaded modules."""
    search = spec.get("search", "updates built-in").split()
    ranked = sorted((b for b in builds if not b.root), key=lambda build: _rank(build.folder, search))
    winners: dict[str, Build] = {}
    for build in ranked:
        winners.setdefault(build.shape.name, build)
    running = {build.shape.name: build for build in builds if build.loaded}
    at = f"lib/modules/{kernel.release}"
    for build in builds:
        siblings = {other.shape.name: other for other in builds if other.build == build.build}
        content = image(build, kernel, {**winners, **siblings})
        path = posixpath.join(build.root, at, build.path)
        if not build.memory_only:
            tree.file(path, _compressed(content, build.compress))
        if "peer" not in build.shape.name:
            tree.reducible.add(path)
    if spec.get("depmod", True):
        _depmod(tree, at, winners, builds)
    _running(tree, running, kernel)
    _kallsyms(tree, running, kernel)


def _rank(folder: str, search: list[str]) -> int:
    for rank, name in enumerate(search):
        if folder.startswith("kernel" if name == "built-in" else name):
            return rank
    return len(search)


def _needs(name: str, winners: Mapping[str, Build]) -> list[str]:
    """Every module that must be loaded first, nearest first, as in modules.dep."""
    order: list[str] = []

    def visit(current: str) -> None:
        wanted = winners[current].shape.imports.items()
        for provider in sorted({p for s, p in wanted if p in winners and s in winners[p].shape.exports}):
            if provider not in order:
                visit(provider)
                order.append(provider)

    visit(name)
    return order[::-1]


def _depmod(tree: Tree, at: str, winners: Mapping[str, Build], builds: list[Build]) -> None:
    lines = []
    for name, build in sorted(winners.items(), key=lambda item: item[1].path):
        lines.append(
            f"{build.path}: {' '.join(winners[need].path for need in _needs(name, winners))}".rstrip()
        )
    tree.file(f"{at}/modules.dep", "".join(f"{line}\n" for line in lines))
    symbols = ["# Aliases for symbols, used by symbol_request()."]
    for _, build in sorted(winners.items()):
        symbols += [f"alias symbol:{symbol} {build.module}" for symbol in build.shape.exports]
    tree.file(f"{at}/modules.symbols", "\n".join(symbols) + "\n")
    aliases = ["# Aliases extracted from modules themselves."]
    if "mlx5_core" in winners:
        aliases += [
            f"alias pci:v000015B3d0000{device}sv*sd*bc*sc*i* mlx5_core" for device in ("101B", "1021")
        ]
    if "nvidia" in winners:
        name = winners["nvidia"].module
        aliases += [f"alias pci:v000010DEd*sv*sd*bc03sc{sub}i00* {name}" for sub in ("00", "02")]
    tree.file(f"{at}/modules.alias", "\n".join(aliases) + "\n")
    tree.file(f"{at}/modules.softdep", "# Soft dependencies extracted from modules themselves.\n")
    intree_ones = (build for build in builds if build.folder.startswith("kernel/drivers"))
    tree.file(f"{at}/modules.order", "".join(f"{build.path}\n" for build in intree_ones))
    tree.file(f"{at}/modules.builtin", "kernel/drivers/dma-buf/udmabuf.ko\nkernel/drivers/gpu/drm/drm.ko\n")
    for path, content in with_indexes({p: c for p, c in tree.files.items() if p.startswith(at)}).items():
        if path.endswith(".bin"):
            tree.file(path, content)


def _running(tree: Tree, running: Mapping[str, Build], kernel: Kernel) -> None:
    lines = []
    for name, build in reversed(running.items()):
        users = [other for other, b in running.items() if name in b.shape.imports.values()]
        count = len(users) + build.users
        taint = taint_of(build)
        shown = f"({taint})" if taint else ""
        held = ",".join(users) + "," if users else "-"
        lines.append(f"{name} {build.shape.size} {count} {held} Live 0x0000000000000000 {shown}".rstrip())
        at = f"sys/module/{name}"
        tree.line(f"{at}/initstate", "live")
        tree.line(f"{at}/coresize", build.shape.size)
        tree.line(f"{at}/refcnt", count)
        tree.line(f"{at}/taint", taint)
        tree.line(f"{at}/srcversion", srcversion(build))
        if build.shape.version:
            tree.line(f"{at}/version", build.shape.version)
        tree.folder(f"{at}/holders")
        for user in users:
            tree.link(f"{at}/holders/{user}", f"sys/module/{user}")
        for parameter, kind in build.shape.parameters.items():
            if not parameter.startswith(
                "NVreg_"
            ):  # those have no file in sysfs: see proc/driver/nvidia/params
                default = "1" if parameter == "persistent_api_support" else "0"
                tree.line(f"{at}/parameters/{parameter}", "N" if kind == "bool" else default)
    tree.file("proc/modules", "\n".join(lines) + "\n" if lines else "")


def taint_of(build: Build) -> str:
    """Letters as in proc/modules: P proprietary, O out of tree, E not verified."""
    if build.folder.startswith("kernel/drivers"):
        return ""
    proprietary = "P" if build.shape.license in ("NVIDIA", "MIT", "Linux-OpenIB") else ""
    return proprietary + "O" + ("" if build.signer and build.trusted else "E")


def _kallsyms(tree: Tree, running: Mapping[str, Build], kernel: Kernel) -> None:
    lines = []
    for symbol in vmlinux_exports(kernel):
        lines += [f"0000000000000000 T {symbol}", f"0000000000000000 r __ksymtab_{symbol}"]
    for name, build in running.items():
        for symbol in build.shape.exports:
            lines += [
                f"0000000000000000 t {symbol}\t[{name}]",
                f"0000000000000000 r __ksymtab_{symbol}\t[{name}]",
            ]
    tree.file("proc/kallsyms", "\n".join(lines) + "\n")


def symvers(builds: Iterable[Build], exports: Mapping[str, Export] | None = None) -> str:
    """A Module.symvers of these builds, and of the kernel itself where its exports are given."""
    lines = []
    for symbol, export in (exports or {}).items():
        kind = "EXPORT_SYMBOL_GPL" if export.gpl_only else "EXPORT_SYMBOL"
        lines.append(f"0x{export.crc or 0:08x}\t{symbol}\tvmlinux\t{kind}\t{export.namespace}")
    for build in builds:
        where = posixpath.splitext(posixpath.join(build.folder, build.shape.name + ".ko"))[0].removeprefix(
            "kernel/"
        )
        for symbol in build.shape.exports:
            lines.append(f"0x{checksum(symbol, build.build):08x}\t{symbol}\t{where}\tEXPORT_SYMBOL\t")
    return "\n".join(lines) + "\n"
