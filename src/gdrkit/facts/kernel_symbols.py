"""What exports a symbol to modules, the kernel image or a module, with its CRC and restrictions.

The exports of the image are read from files that were made together with it: Module.symvers in the kernel
headers, reference modules, and the kernel's list of symbols.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import config_option, release, require_running
from gdrkit.facts.loaded_modules import loaded
from gdrkit.facts.module_files import exports, versions
from gdrkit.facts.module_index import builtin, dependencies, module_path, modules_dir, symbol_owner
from gdrkit.facts.reference_modules import first_answer_of_references
from gdrkit.facts.running_files import is_loaded_for_sure, loaded_path, not_the_file, replaced
from gdrkit.formats.errors import FormatError
from gdrkit.formats.regex import regex
from gdrkit.formats.whole_number import hex_number
from gdrkit.node import Node, fact, if_absent, if_missing

if TYPE_CHECKING:
    from gdrkit.formats.elf import Export

VMLINUX = "vmlinux"
_VERSIONS = "CONFIG_MODVERSIONS"
_GPL_MARK = b" __start___ksymtab_gpl\n"
_OF_THE_IMAGE = regex(rb" __ksymtab_[^ \t\n]+\n")  # a module's ends in its name
_SYMVERS_LIMIT_BYTES = 64 << 20  # Module.symvers has 1 to 3 MB; kallsyms about 12 MB
# Symbols that only these modules export: the kernel image has them only if the module is built in.
_EXPORTED_BY = (("nvidia_p2p_", "nvidia"), ("ib_", "ib_core", "ib_uverbs"))


class KernelSymbol(Struct, frozen=True):
    """A symbol that the kernel image or a module exports. None: not known."""

    crc: int | None
    has_crc: bool | None  # False: a kernel without symbol versions
    gpl_only: bool | None
    namespace: str | None


class Provider(Struct, frozen=True):
    """What exports a symbol, and how."""

    owner: str  # a module, or vmlinux
    symbol: KernelSymbol


@fact
def module_layout_crc(node: Node) -> int | None:
    """The CRC of the kernel's module structures; None if the kernel has no symbol versions."""
    export = if_missing(None, lambda: _symvers_export(symvers(node), "module_layout"))
    if export is not None:
        return export.crc

    def crc(path: str) -> tuple[int | None] | None:
        wanted = versions(node, path)
        if wanted is None:
            return (None,)
        return (wanted["module_layout"],) if "module_layout" in wanted else None

    return first_answer_of_references(node, crc, "the CRC of module_layout")[0]


# -- symbols -------------------------------------------------------------------------------------------


@fact
def symvers(node: Node) -> bytes:
    """The Module.symvers of the kernel: CRC, symbol, module, kind of export and namespace, separated by
    tabs.

    Source: Linux Documentation/kbuild/modules.rst. It is installed with the headers; Red Hat puts a
    compressed copy next to the kernel.
    """
    kernel, folder = release(node), modules_dir(node)
    reason: EvidenceMissing | None = None
    for path in (
        f"{folder}/build/Module.symvers",
        f"usr/src/linux-headers-{kernel}/Module.symvers",
        f"usr/src/kernels/{kernel}/Module.symvers",
        f"{folder}/symvers.gz",
        f"{folder}/symvers.xz",
        f"boot/symvers-{kernel}.gz",
        f"boot/symvers-{kernel}.xz",
    ):
        try:
            content = node.map(path)
        except EvidenceMissing as error:
            reason = _more_open(reason, error)
            continue
        from gdrkit.formats.compressed import decompress

        text = bytes(decompress(content, _SYMVERS_LIMIT_BYTES))
        if f"\t{VMLINUX}\t".encode() in text:  # others belong to modules that were built separately
            return b"\n" + text
    if reason is not None:
        raise reason.fresh()
    raise EvidenceAbsent(
        Missing("Module.symvers", MissingReason.ABSENT, f"ls {quoted(f'/{folder}/build/Module.symvers')}")
    )


def _more_open(reason: EvidenceMissing | None, error: EvidenceMissing) -> EvidenceMissing:
    """Of two errors, one other than EvidenceAbsent, so that EvidenceAbsent means that all files are
    absent."""
    return error.fresh() if reason is None or isinstance(reason, EvidenceAbsent) else reason


def _symvers_export(text: bytes, symbol: str) -> KernelSymbol:
    """A symbol of the kernel image in Module.symvers. Raises EvidenceAbsent if it is not listed."""
    at = text.find(f"\t{symbol}\t{VMLINUX}\t".encode())
    if at < 0:
        raise EvidenceAbsent(
            Missing(
                f"Module.symvers ({symbol})", MissingReason.ABSENT, f"grep {quoted(symbol)} Module.symvers"
            )
        )
    start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
    words = text[start : end if end >= 0 else len(text)].decode("ascii", "replace").split("\t")
    crc = hex_number(words[0])
    if crc is None:
        raise FormatError(f"the line of {symbol} in Module.symvers has no CRC")
    # A kernel without symbol versions writes zero for all: Documentation/kbuild/modules.rst.
    return KernelSymbol(
        crc or None, crc != 0, words[3].startswith("EXPORT_SYMBOL_GPL"), words[4] if len(words) > 4 else ""
    )


@fact
def kernel_symbol(node: Node, symbol: str) -> KernelSymbol:
    """How the kernel image exports a symbol. Raises EvidenceAbsent if it does not."""
    for prefix, module, *_ in _EXPORTED_BY:
        if symbol.startswith(prefix) and _is_a_module(node, module):
            raise EvidenceAbsent(
                Missing(
                    f"{VMLINUX} ({symbol})", MissingReason.ABSENT, f"grep -w {quoted(symbol)} /proc/kallsyms"
                )
            )
    text = if_missing(None, symvers, node)
    if text is not None:
        return _symvers_export(text, symbol)
    try:
        crc = first_answer_of_references(
            node, lambda path: _wanted(node, path, symbol), f"an import of {symbol}"
        )
    except EvidenceMissing:
        _in_kallsyms(node, symbol)
        return KernelSymbol(None, None, _is_gpl_only(node, symbol), None)
    return KernelSymbol(crc, True, _is_gpl_only(node, symbol), None)


def _wanted(node: Node, path: str, symbol: str) -> int | None:
    return None if symbol_owner(node, symbol) else (versions(node, path) or {}).get(symbol)


def _is_a_module(node: Node, name: str) -> bool:
    """Whether this is a module in a file of its own. False also where that is not known."""
    return if_missing(False, lambda: bool(module_path(node, name)) and not builtin(node, name))


def _in_kallsyms(node: Node, symbol: str) -> None:
    """Raises EvidenceAbsent if the kernel image exports no such symbol, and EvidenceMissing where no export
    of the image is listed: every image has thousands."""
    table = export_tables(node)
    if not _OF_THE_IMAGE.search(table):
        raise EvidenceMissing(
            Missing("proc/kallsyms (vmlinux)", MissingReason.UNDECIDED, "grep -w vmlinux Module.symvers")
        )
    if f" __ksymtab_{symbol}\n".encode() not in table:
        raise EvidenceAbsent(
            Missing(
                f"proc/kallsyms ({symbol})", MissingReason.ABSENT, f"grep -w {quoted(symbol)} /proc/kallsyms"
            )
        )


@fact
def export_tables(node: Node) -> bytes:
    """The exports in /proc/kallsyms, one line each: " __ksymtab_<symbol>", and "<tab>[module]" for a
    module's.

    The kernel lists them only with CONFIG_KALLSYMS_ALL; raises EvidenceMissing where they are not listed.
    The file has 10 MB or more and takes the kernel 50 ms to write, so it is read once, and only if needed.
    """
    text = if_absent(b"", _kallsyms, node)
    found = b"".join(re.findall(rb" (?:__ksymtab_[^ \n]*|__start___ksymtab_gpl)\n", text))
    if b" __ksymtab_" not in found:
        raise EvidenceMissing(
            Missing("proc/kallsyms (__ksymtab)", MissingReason.UNDECIDED, "grep -w vmlinux Module.symvers")
        )
    return found


def _kallsyms(node: Node) -> bytes:
    require_running(node, "proc/kallsyms")
    return node.read("proc/kallsyms")


def _is_gpl_only(node: Node, symbol: str) -> bool | None:
    """Whether the image exports a symbol to GPL-compatible modules only; None where that is not known.

    The image's table of GPL-only exports follows the other table, and kallsyms is sorted by address: Linux
    include/asm-generic/vmlinux.lds.h, RO_DATA(). The first entry has the same address as the mark, and may
    come before or after it.
    """
    table = if_missing(b"", export_tables, node)
    mark, entry = table.find(_GPL_MARK), table.find(f" __ksymtab_{symbol}\n".encode())
    if mark < 0 or entry < 0:
        return None
    if table.rfind(b"\n", 0, mark) == table.find(b"\n", entry):
        return None
    return entry > mark


@fact
def holder_of(node: Node, symbol: str) -> str:
    """The loaded module whose export table has a symbol; "" if none. Raises EvidenceMissing without
    kallsyms."""
    return _holders(node).get(symbol, "")


@fact
def _holders(node: Node) -> Mapping[str, str]:
    """The loaded module that exports each symbol that is not of the image."""
    found = re.findall(rb" __ksymtab_([^ \t\n]+)\t\[([^]\n]+)\]\n", export_tables(node))
    return {symbol.decode("ascii", "replace"): name.decode("ascii", "replace") for symbol, name in found}


@fact
def lists_modules(node: Node) -> bool:
    """Whether kallsyms lists the exports of modules, so that a symbol it does not list is not exported."""
    return b"\t[" in if_missing(b"", export_tables, node)


@fact
def provider(node: Node, symbol: str, importer: str) -> Provider:
    """What exports a symbol when modprobe loads `importer`: a dependency, a loaded module, or the image.

    Raises EvidenceAbsent if nothing does.
    """
    owner = _owner(node, symbol, importer)
    if owner == VMLINUX:
        return Provider(VMLINUX, kernel_symbol(node, symbol))
    if owner not in usable_by(node, importer):
        raise _not_exported(owner, symbol, f"modprobe {quoted(owner)}")
    try:
        found = export_of(node, owner, symbol)
    except EvidenceAbsent:
        raise
    except EvidenceMissing:
        # Nothing but its CRC is needed of an export whose module's file is gone, and here there are no CRCs.
        if if_missing("", holder_of, node, symbol) != owner or config_option(node, _VERSIONS) == "y":
            raise
        return Provider(owner, KernelSymbol(None, False, None, None))
    return Provider(owner, KernelSymbol(found.crc, found.crc is not None, found.gpl_only, found.namespace))


@fact
def export_of(node: Node, owner: str, symbol: str) -> Export:
    """How a module exports a symbol: the loaded one, else the file that modprobe would load.

    Raises EvidenceAbsent if it does not, EvidenceMissing if the loaded one exports it and no file is that
    module's: the kernel does not show the CRC.
    """
    found = _exports_of(node, owner).get(symbol)
    if found is not None:
        return found
    if if_missing("", holder_of, node, symbol) == owner:
        raise EvidenceMissing(not_the_file(node, owner, f"it exports {symbol}"))
    raise _not_exported(owner, symbol, f"modprobe --show-exports $(modinfo -n {quoted(owner)})")


def _not_exported(owner: str, symbol: str, ask: str) -> EvidenceAbsent:
    return EvidenceAbsent(Missing(f"{owner} ({symbol})", MissingReason.ABSENT, ask))


def _exports_of(node: Node, owner: str) -> Mapping[str, Export]:
    """What a module exports. If it is loaded without a file, raises EvidenceMissing, not EvidenceAbsent."""
    try:
        return exports(node, loaded_path(node, owner))
    except EvidenceAbsent as absent:
        if is_loaded_for_sure(node, owner):
            raise EvidenceMissing(absent.missing) from None
        raise


def _owner(node: Node, symbol: str, importer: str) -> str:
    """The module that exports a symbol, or "vmlinux"; by depmod's list, else by the dependencies' files."""
    try:
        return exporter(node, symbol)
    except EvidenceMissing:
        if _has_symbol_list(node):
            raise
    needed = dependencies(node, importer)
    return next((name for name in needed if symbol in _exports_of(node, name)), VMLINUX)


def _has_symbol_list(node: Node) -> bool:
    return if_missing(False, lambda: symbol_owner(node, "") == "")


@fact
def usable_by(node: Node, name: str) -> frozenset[str]:
    """The modules whose exports a module can use: its dependencies, and all loaded modules."""
    return frozenset(if_missing({}, loaded, node)) | frozenset(dependencies(node, name))


@fact
def exporter(node: Node, symbol: str) -> str:
    """The module that exports a symbol, or "vmlinux": by depmod's list, but what is loaded comes first.

    Raises EvidenceAbsent if none does. kallsyms decides about a loaded module that is not the file on disk.
    """
    listed = symbol_owner(node, symbol)
    if not listed:
        try:
            kernel_symbol(node, symbol)
        except EvidenceAbsent:
            return _running_exporter(node, symbol, _candidates(symbol))
        return VMLINUX
    if replaced(node, listed):
        return _running_exporter(node, symbol, tuple(dict.fromkeys((listed, *_candidates(symbol)))))
    if is_loaded_for_sure(node, listed) and lists_modules(node):  # another build of it may run
        return holder_of(node, symbol) or _running_exporter(node, symbol, ())
    return listed


def _candidates(symbol: str) -> tuple[str, ...]:
    """The modules that may export a symbol that depmod does not list."""
    return next((tuple(modules) for prefix, *modules in _EXPORTED_BY if symbol.startswith(prefix)), ())


def _running_exporter(node: Node, symbol: str, candidates: tuple[str, ...]) -> str:
    """The loaded module that exports a symbol, by kallsyms, else by the file of one that may.

    Raises EvidenceAbsent if none does, EvidenceMissing if one may whose file is not on disk.
    """
    if lists_modules(node):
        if found := holder_of(node, symbol):
            return found
        others = [name for name in candidates if replaced(node, name)]
    else:
        others = [name for name in _may_export(node, symbol, candidates) if replaced(node, name)]
        for name in others:
            if symbol in exports(node, loaded_path(node, name)):
                return name
    owner = next(iter(others), VMLINUX)
    raise _not_exported(owner, symbol, f"grep -w {quoted(symbol)} /proc/kallsyms")


def _may_export(node: Node, symbol: str, candidates: tuple[str, ...]) -> Iterable[str]:
    """The loaded modules that may export a symbol where kallsyms lists no exports, the likeliest first.

    Without CONFIG_KALLSYMS_ALL, as on Debian's arm64, it lists the functions of modules alone: Linux
    kernel/module/kallsyms.c, is_core_symbol(). A variable may be exported by any module.
    """
    name = re.escape(symbol.encode())
    found = re.search(rb" [TW] %s\t\[([^]\n]+)\]\n" % name, if_missing(b"", _kallsyms, node))
    holders = (found[1].decode("ascii", "replace"),) if found else ()
    return dict.fromkeys((*holders, *(candidates or if_missing((), lambda: tuple(loaded(node))))))
