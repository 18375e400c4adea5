"""The contents of a module's file: .modinfo, imports, exports and symbol versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import config_option
from gdrkit.facts.kmod import kmod_version
from gdrkit.formats import json_text
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, fact, first_of, if_missing

if TYPE_CHECKING:
    from gdrkit.formats.compressed import Packing
    from gdrkit.formats.elf import Buffer, Elf, Export

_LEAVES_IT_TO_THE_KERNEL = 31  # the version of kmod


class ModInfo(Struct, frozen=True):
    """The .modinfo section. Empty: the module does not have the field."""

    name: str
    license: str
    version: str
    srcversion: str
    vermagic: str
    depends: tuple[str, ...]
    parameters: Mapping[str, str]  # name -> type, as in parmtype: int, bool, charp, array of uint, ...
    import_ns: tuple[str, ...]
    retpoline: bool
    intree: bool
    staging: bool
    test: bool
    livepatch: bool
    supported: str  # SUSE: "yes", "external", or "no"
    alias: tuple[str, ...]


class Stored(Struct, frozen=True):
    """What a bundle's manifest records about a module that it keeps without its code."""

    digests: dict[str, str] = {}  # of the signed content, by hashlib's name
    head: str = ""  # the first bytes of a file that was compressed, in hex


class _ManifestFiles(Struct, frozen=True):
    files: dict[str, Stored] = {}


@fact
def stored(node: Node) -> Mapping[str, Stored]:
    """The records of a bundle's manifest, by path; empty where there is no bundle."""
    try:
        return json_text.decode(node.read("gdr_manifest.json"), _ManifestFiles).files
    except (EvidenceMissing, FormatError):
        return {}


@fact
def packing(node: Node, path: str) -> Packing | None:
    """How the file is compressed; None if it is not."""
    from gdrkit.formats.compressed import packing as by_head

    found = stored(node).get(path)
    try:
        return by_head(bytes.fromhex(found.head) if found is not None and found.head else node.map(path))
    except ValueError:
        return None


@fact
def kernel_unpacks(node: Node) -> str:
    """The compression of modules that modprobe leaves to the kernel: xz, zstd or gzip; "" if none.

    Source: kmod libkmod/libkmod-module.c, do_finit_module(), since 31; Linux kernel/module/decompress.c,
    since 5.17. /sys/module/compression says which one; without it, the kernel's configuration does.
    """
    if if_missing(0, kmod_version, node) < _LEAVES_IT_TO_THE_KERNEL:
        return ""

    def the_kernel() -> str:
        return node.text("sys/module/compression").strip()

    def its_configuration() -> str:
        if config_option(node, "CONFIG_MODULE_DECOMPRESS") != "y":
            return ""
        kinds = ("gzip", "xz", "zstd")
        return next(
            (k for k in kinds if config_option(node, f"CONFIG_MODULE_COMPRESS_{k.upper()}") == "y"), ""
        )

    return if_missing("", lambda: first_of(the_kernel, its_configuration))


@fact
def content(node: Node, path: str) -> Buffer:
    """The whole file, decompressed if necessary. The kernel reads one stream and ignores what follows it,
    modprobe reads all streams."""
    from gdrkit.formats.compressed import MODULE_LIMIT_BYTES, compression, decompress, streams

    data = node.map(path)
    kind = compression(data)
    try:
        if not kind or streams(data) == 1:  # then it does not matter who unpacks it
            return decompress(data, MODULE_LIMIT_BYTES)
    except FormatError:
        if kernel_unpacks(node) != kind:
            raise
    return decompress(data, MODULE_LIMIT_BYTES, first=kernel_unpacks(node) == kind)


@fact
def is_packed(node: Node, path: str) -> bool:
    """Whether the file is compressed, by its first bytes, not its name."""
    from gdrkit.formats.compressed import compression

    return bool(compression(node.map(path)))


@fact
def image(node: Node, path: str) -> Elf:
    """The file as ELF. Raises EvidenceMissing (garbled) for a file that the kernel would refuse as
    invalid."""
    from gdrkit.formats.elf import parse

    return parse(content(node, path))


@fact
def information(node: Node, path: str) -> ModInfo:
    """The module's .modinfo section. Source: Linux include/linux/module.h, MODULE_INFO() and its users."""
    pairs = image(node, path).modinfo()
    node.cite(path, ".modinfo")
    first: dict[str, str] = {}
    for tag, value in pairs:
        first.setdefault(tag, value)  # the kernel uses the first: get_modinfo()
    types = (value.partition(":") for tag, value in pairs if tag == "parmtype")
    return ModInfo(
        name=first.get("name", ""),
        license=first.get("license", ""),
        version=first.get("version", ""),
        srcversion=first.get("srcversion", ""),
        vermagic=first.get("vermagic", ""),
        depends=tuple(name for name in first.get("depends", "").split(",") if name),
        parameters={name: kind for name, _, kind in types},
        import_ns=tuple(value for tag, value in pairs if tag == "import_ns"),
        retpoline="retpoline" in first,
        intree="intree" in first,
        staging="staging" in first,
        test="test" in first,
        livepatch="livepatch" in first,
        supported=first.get("supported", ""),
        alias=tuple(value for tag, value in pairs if tag == "alias"),
    )


def is_supported(node: Node, path: str) -> bool:
    """Whether SUSE, or a vendor in its name, supports the module: SLES Administration Guide, "Support of
    kernel modules"."""
    return information(node, path).supported in ("yes", "external")


@fact
def versions(node: Node, path: str) -> Mapping[str, int] | None:
    """The CRC that the module expects of each symbol it uses; None if it was built without versions."""
    wanted = image(node, path).versions()
    node.cite(path, "__versions", "" if wanted is not None else "no such section")
    return wanted


@fact
def imports(node: Node, path: str) -> Mapping[str, int | None]:
    """Symbols that the module needs, in the file's order, with the CRC it expects; None if it has none."""
    wanted = versions(node, path) or {}
    symbols = image(node, path).undefined()
    node.cite(path, ".symtab")
    return {symbol.name: wanted.get(symbol.name) for symbol in symbols if not symbol.weak}


@fact
def weak_imports(node: Node, path: str) -> Mapping[str, int | None]:
    """Symbols that the module uses if they are exported, with the CRC it expects."""
    wanted = versions(node, path) or {}
    symbols = image(node, path).undefined()
    return {symbol.name: wanted.get(symbol.name) for symbol in symbols if symbol.weak}


@fact
def exports(node: Node, path: str) -> Mapping[str, Export]:
    """Symbols that the module exports."""
    offered = image(node, path).exports()
    node.cite(path, "__ksymtab")
    return offered


@fact
def build_id(node: Node, path: str) -> bytes:
    """The note with the module's build id, as /sys/module/<name>/notes shows it; b"" if it has none."""
    return bytes(image(node, path).section(".note.gnu.build-id") or b"")
