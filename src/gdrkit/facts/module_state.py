"""Whether a module's file is a valid module, and whether it was built for this kernel."""

from __future__ import annotations

import enum

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import architecture, boot_parameter, built_by_debian, config_option, version
from gdrkit.facts.kernel_symbols import module_layout_crc
from gdrkit.facts.loaded_modules import is_loaded, loaded
from gdrkit.facts.module_files import content, image, information, is_packed, versions
from gdrkit.facts.module_index import module_path
from gdrkit.facts.module_packing import unpack_fault
from gdrkit.facts.reference_modules import struct_module_size_bytes, vermagic
from gdrkit.node import Node, fact, if_absent, if_missing

# The e_machine that the kernel requires of a module: Linux arch/*/include/asm/elf.h, elf_check_arch().
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "s390x": 22, "ppc64le": 21}
ET_REL = 1
_HEADER_BYTES = 64  # of an ELF64 header
_SNIFFED_BYTES = 6  # kmod refuses shorter files: libkmod-file.c, kmod_file_open(), the longest magic
# Since Linux 6.4 the kernel compares the size of struct module before anything else of the module: main.c,
# elf_validity_cache_copy(), "module: add sanity checks for ELF module section".
SIZE_IS_CHECKED = 6, 4


class Corruption(enum.StrEnum):
    """Why a file is not a module for any kernel of this machine, by the kernel's first error."""

    EMPTY = "empty"  # or nearly so
    COMPRESSED = "compressed"  # cannot be decompressed
    SHORT = "short"  # than an ELF header
    MAGIC = "magic"  # not ELF
    TYPE = "type"  # not relocatable
    MACHINE = "machine"  # for another processor
    TABLE = "table"  # the section table is not in the file
    NAMES = "names"  # the index of the section names is beyond the table
    OTHER = "other"  # something in the table
    NO_MODULE = "no-module"  # without struct module
    NO_SYMBOLS = "no-symbols"  # without .symtab


class ModuleFlaw(Struct, frozen=True):
    """What is wrong with a file, and the numbers that the kernel prints with it."""

    kind: Corruption
    number: int = 0
    limit: int = 0


@fact
def file_flaw(node: Node, path: str) -> ModuleFlaw | None:
    """Why the kernel refuses a file as not a module; None if it does not.

    The order is that of Linux kernel/module/main.c, elf_validity_check(). An empty file, or one that cannot
    be decompressed, does not get that far.
    """
    if len(node.map(path)) < _SNIFFED_BYTES:
        return ModuleFlaw(Corruption.EMPTY)
    if unpack_fault(node, path) is not None:
        return ModuleFlaw(Corruption.COMPRESSED)
    try:
        data = content(node, path)
    except EvidenceMissing as error:
        return ModuleFlaw(_garbled(error, Corruption.COMPRESSED))
    if len(data) < _HEADER_BYTES:
        # A file that modprobe decompressed goes through init_module(), which prints no length.
        return ModuleFlaw(Corruption.SHORT, -1 if is_packed(node, path) else len(data))
    if data[:4] != b"\x7fELF":
        return ModuleFlaw(Corruption.MAGIC)
    kind, machine = int.from_bytes(data[16:18], "little"), int.from_bytes(data[18:20], "little")
    if kind != ET_REL:
        return ModuleFlaw(Corruption.TYPE, kind)
    if machine != MACHINES.get(architecture(node), machine):
        return ModuleFlaw(Corruption.MACHINE, machine)
    start, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    if start >= len(data) or count * 64 > len(data) - start:
        return ModuleFlaw(Corruption.TABLE)
    names = int.from_bytes(data[62:64], "little")
    if not 0 < names < count:
        return ModuleFlaw(Corruption.NAMES, names, count)
    return _inner_flaw(node, path)


def is_unread(node: Node, path: str) -> bool:
    """Whether a file is known to be refused before anybody looks at its signature."""
    flaw = if_missing(None, file_flaw, node, path)
    return flaw is not None and flaw.kind in (Corruption.EMPTY, Corruption.COMPRESSED)


def _inner_flaw(node: Node, path: str) -> ModuleFlaw | None:
    try:
        elf = image(node, path)
    except EvidenceMissing as error:
        return ModuleFlaw(_garbled(error, Corruption.OTHER))
    if elf.size_of(".gnu.linkonce.this_module") is None:
        return ModuleFlaw(Corruption.NO_MODULE)
    if not any(section.type == 2 for section in elf.sections):  # SHT_SYMTAB
        return ModuleFlaw(Corruption.NO_SYMBOLS)
    return None


def _garbled(error: EvidenceMissing, kind: Corruption) -> Corruption:
    """The kind of flaw if the file's content is the reason; other errors are raised again."""
    if error.missing.why is not MissingReason.GARBLED:
        raise error
    return kind


# -- built for this kernel -----------------------------------------------------------------------------


class KernelMismatch(enum.StrEnum):
    """Why a module is for another kernel."""

    STRUCT_SIZE = "struct-size"
    LAYOUT = "layout"  # the CRC of module_layout differs
    NO_LAYOUT = "no-layout"  # symbol versions, but none of module_layout
    NO_VERSIONS = "no-versions"  # no symbol versions, and the kernel does not allow forced loading
    VERMAGIC = "vermagic"
    NO_VERMAGIC = "no-vermagic"


class KernelMatch(Struct, frozen=True):
    """Whether a module was built for this kernel."""

    misfit: KernelMismatch | None
    forced: tuple[str, ...] = ()  # reasons for the taint of a forced load, in order
    found: str = ""
    wanted: str = ""
    unversioned: bool = False  # accepted without a CRC of module_layout


@fact
def kernel_match(node: Node, name: str) -> KernelMatch:
    """Whether a module was built for this kernel, as far as the kernel checks.

    Source: kernel/module/version.c, check_modstruct_version() and same_magic(): with symbol versions the
    release itself may differ; main.c, try_to_force_load() and check_modinfo(). Debian's kernels refuse a
    module that has symbol versions but none of module_layout, see linkage.py; observed in the lab with 6.1.
    """
    path = module_path(node, name)
    if version(node) >= SIZE_IS_CHECKED:
        size, wanted_size = (
            image(node, path).size_of(".gnu.linkonce.this_module"),
            struct_module_size_bytes(node),
        )
        if size != wanted_size:
            return KernelMatch(KernelMismatch.STRUCT_SIZE, found=str(size), wanted=str(wanted_size))
    forced: list[str] = []
    crcs, wanted = versions(node, path), module_layout_crc(node)
    if wanted is not None and crcs is None:
        if not _can_be_forced(node):
            return KernelMatch(KernelMismatch.NO_VERSIONS)
        forced.append("module_layout")
    unversioned = wanted is not None and crcs is not None and "module_layout" not in crcs
    if unversioned and built_by_debian(node):
        return KernelMatch(KernelMismatch.NO_LAYOUT)
    if wanted is not None and crcs is not None and crcs.get("module_layout", wanted) != wanted:
        return KernelMatch(
            KernelMismatch.LAYOUT, found=f"0x{crcs['module_layout']:08x}", wanted=f"0x{wanted:08x}"
        )
    magic, right = information(node, path).vermagic, vermagic(node)
    if not magic:
        if not _can_be_forced(node):
            return KernelMatch(KernelMismatch.NO_VERMAGIC)
        forced.append("bad vermagic")
    elif not same_magic(magic, right, with_versions=crcs is not None):
        return KernelMatch(KernelMismatch.VERMAGIC, tuple(forced), magic, right, unversioned)
    return KernelMatch(None, tuple(forced), unversioned=unversioned)


def same_magic(found: str, wanted: str, *, with_versions: bool) -> bool:
    """Whether the kernel considers two version strings equal."""
    if with_versions:
        found, wanted = found[found.find(" ") :], wanted[wanted.find(" ") :]
    return found == wanted


@fact
def _can_be_forced(node: Node) -> bool:
    return config_option(node, "CONFIG_MODULE_FORCE_LOAD") == "y"


@fact
def boot_blacklist(node: Node) -> tuple[str, ...]:
    """Modules that the kernel itself refuses: `module_blacklist=` on its command line, names as written.

    Source: main.c, blacklisted(): core_param, so the last one counts. It is compared with the module's own
    name, where an underscore does not match a dash.
    """
    values = if_absent((), boot_parameter, node, "module_blacklist")
    return tuple(values[-1].split(",")) if values else ()


def state_in_kernel(node: Node, name: str) -> str:
    """The state of the module that the kernel has under this module's own name: Live, Loading or Unloading;
    "" if none is known. modprobe looks for the file's name, so it may try to load one that is loaded."""
    own = kernel_name(node, name)
    if is_loaded(node, own):
        return "Live"
    present = if_missing(None, lambda: loaded(node).get(own))
    return present.state if present is not None and present.state != "Live" else ""


@fact
def is_in_kernel(node: Node, name: str) -> bool:
    """Whether a module is loaded, by its file's name or by its own."""
    return is_loaded(node, name) or if_missing("", state_in_kernel, node, name) == "Live"


@fact
def kernel_name(node: Node, name: str) -> str:
    """The kernel's name of a module, which can differ from its file's name."""
    path = module_path(node, name)
    own = information(node, path).name
    if own:
        return own
    found = image(node, path).this_module_name()
    if found is None:
        raise EvidenceAbsent(
            Missing(
                f"{path} (.gnu.linkonce.this_module)",
                MissingReason.ABSENT,
                f"modinfo -F name {quoted(f'/{path}')}",
            )
        )
    return found
