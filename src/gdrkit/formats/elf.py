"""ELF files: symbols, symbol versions and .modinfo of kernel modules, and symbols of shared libraries.

See `elf_layout` for the supported files and the limits.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.elf_layout import (
    ET_DYN,
    ET_REL,
    SECTIONS_LIMIT,
    SHN_ABS,
    SHN_UNDEF,
    SHT_DYNSYM,
    SHT_SYMTAB,
    STB_LOCAL,
    STB_WEAK,
    SYMBOL,
    Buffer,
    ElfIdentity,
    ElfLayout,
    ElfSection,
    StringTable,
    identify,
    text,
)
from gdrkit.formats.errors import FormatError

# -- the exports of a kernel module: names, CRCs, licence, namespace --
# Sources, by kernel: 5.19 and later include/linux/export-internal.h, KSYMTAB and SYMBOL_CRC (local labels
# __ksymtab_NAME, __kstrtabns_NAME and __crc_NAME in tables of their own); then SYMBOL_FLAGS (__flags_NAME in
# __kflagstab, where KSYM_FLAG_GPL_ONLY of include/linux/module_symbol.h replaces the second table); earlier,
# include/linux/export.h (__crc_NAME absolute, or, with MODULE_REL_CRCS, at the value); objects that modpost
# has not processed yet have .export_symbol (6.4 and later, include/linux/export.h ___EXPORT_SYMBOL).

_LABEL = rb"__(?:ksymtab|kstrtabns|crc|flags|export_symbol)_"
_NAME = struct.Struct("<I20x")
_U32 = struct.Struct("<I")
_GPL_ONLY = 1


class Export(Struct, frozen=True):
    """A symbol that a module or the kernel exports."""

    crc: int | None  # None if built without symbol versions
    gpl_only: bool
    namespace: str  # empty if in none; "module:a,b" lists the only modules that may import it


def exports(layout: ElfLayout) -> dict[str, Export]:
    """A module's exports by name. Raises FormatError if its symbol table is missing or invalid."""
    table, names = layout.symbols(SHT_SYMTAB, "symbol table")
    found = _Found(layout)
    for count, (name, section, value) in enumerate(_labels(table, names)):
        if count > 4 * SECTIONS_LIMIT:  # an export has up to four labels
            raise FormatError("more exported symbols than any kernel has")
        found.add(name, section, value)
    return found.exports()


def _labels(table: memoryview, names: StringTable) -> Iterator[tuple[str, int, int]]:
    """Name, section and value of the symbols that mark exports, which are local in newer kernels.

    Most modules have none, so the names are searched before the symbols.
    """
    label = re.compile(_LABEL)
    if not label.search(names.content):
        return
    for index, (name,) in enumerate(_NAME.iter_unpack(table)):
        if label.match(names.content, name):
            _, _, _, section, value, _ = SYMBOL.unpack_from(table, index * SYMBOL.size)
            if section != SHN_UNDEF:
                yield names.at(name), section, value


class _Found:
    """Collects labels by the symbol that they describe."""

    def __init__(self, layout: ElfLayout) -> None:
        self.layout = layout
        self.gpl_only: dict[str, bool] = {}
        self.flags: dict[str, int] = {}
        self.crcs: dict[str, int] = {}
        self.namespaces: dict[str, str] = {}

    def add(self, label: str, index: int, value: int) -> None:
        if label.startswith("__crc_"):
            name = label.removeprefix("__crc_")
            self.crcs[name] = value & 0xFFFFFFFF if index == SHN_ABS else self._number(index, value, 4)
        elif index >= len(self.layout.sections):
            raise FormatError("an exported symbol is not in any section")
        elif label.startswith("__ksymtab_"):
            section = self.layout.sections[index].name.lstrip("_")  # ___ksymtab+NAME before the last link
            if section.startswith("ksymtab"):
                self.gpl_only[label.removeprefix("__ksymtab_")] = section.startswith("ksymtab_gpl")
        elif label.startswith("__kstrtabns_"):
            strings = self.layout.strings(index, "__ksymtab_strings")
            self.namespaces[label.removeprefix("__kstrtabns_")] = strings.at(value)
        elif label.startswith("__flags_"):
            if self.layout.sections[index].name.lstrip("_").startswith("kflagstab"):
                self.flags[label.removeprefix("__flags_")] = self._number(index, value, 1)
        else:
            name = label.removeprefix("__export_symbol_")
            strings = self.layout.strings(index, ".export_symbol")
            licence = strings.at(value)
            self.gpl_only[name] = licence == "GPL"
            self.namespaces[name] = strings.at(value + len(licence.encode()) + 1)

    def _number(self, index: int, offset: int, size: int) -> int:
        if index >= len(self.layout.sections):
            raise FormatError("a symbol's CRC is not in any section")
        content = self.layout.content(self.layout.sections[index])
        if offset + size > len(content):
            raise FormatError("a symbol's CRC is outside its section")
        return int.from_bytes(content[offset : offset + size], "little")

    def exports(self) -> dict[str, Export]:
        return {
            name: Export(
                self.crcs.get(name),
                bool(self.flags[name] & _GPL_ONLY) if name in self.flags else gpl_only,
                self.namespaces.get(name, ""),
            )
            for name, gpl_only in self.gpl_only.items()
        }


__all__ = [
    "EM_AARCH64",
    "EM_X86_64",
    "ET_DYN",
    "ET_REL",
    "Buffer",
    "Elf",
    "ElfIdentity",
    "ElfSection",
    "Export",
    "UndefinedSymbol",
    "identify",
    "parse",
]  # fmt: skip

EM_X86_64, EM_AARCH64 = 62, 183

_VERSION = struct.Struct("<Q56s")  # struct modversion_info, Linux include/linux/module.h
_THIS_MODULE_NAME = slice(24, 80)  # struct module.name on 64-bit machines, after state and list; same file


class UndefinedSymbol(Struct, frozen=True):
    """A symbol that must be provided by another module or the kernel, unless it is weak."""

    name: str
    weak: bool


def parse(data: Buffer) -> Elf:
    """An ELF file. Only its section table is parsed at first; the rest on demand.

    Raises FormatError for files that the kernel would refuse as invalid ELF, and for 32-bit and big-endian
    ones. Keeps a view of `data`, so a memory map must stay open.
    """
    identity = identify(data)
    if identity.bits != 64:
        raise FormatError("a 32-bit ELF file, not a 64-bit one")
    if not identity.little_endian:
        raise FormatError("a big-endian ELF file, not a little-endian one")
    return Elf(identity, memoryview(data).toreadonly().cast("B"))


class Elf(ElfLayout):
    """An ELF file of a module or a shared library."""

    __slots__ = ()

    @property
    def machine(self) -> int:
        """e_machine: 62 is x86-64, 183 is AArch64."""
        return self._identity.machine

    @property
    def type(self) -> int:
        """e_type: 1 is relocatable (a module), 3 is a shared library."""
        return self._identity.type

    # -- symbols -----------------------------------------------------------------------------------

    def undefined(self) -> tuple[UndefinedSymbol, ...]:
        """Symbols to be resolved at load, in the file's order.

        Source: Linux kernel/module/main.c, simplify_symbols(). Raises FormatError if there is no .symtab.
        """
        table, strings = self.symbols(SHT_SYMTAB, "symbol table")
        found = []
        for index in _undefined(table):
            name, info, *_ = SYMBOL.unpack_from(table, index * SYMBOL.size)
            if name:  # the first symbol has none
                found.append(UndefinedSymbol(strings.at(name), info >> 4 == STB_WEAK))
                _bound(len(found), "undefined symbols")
        return tuple(found)

    def entry_name(self) -> str:
        """The name that the kernel has for the address of a module's init function; "" if it has none.

        module_init() makes init_module another name of the function. Of several names of an address, the
        first counts: Linux kernel/module/kallsyms.c, find_kallsyms_symbol(). Raises FormatError if there is
        no .symtab.
        """
        table, strings = self.symbols(SHT_SYMTAB, "symbol table")
        rows = [
            (strings.at(name), (section, value))
            for name, _, _, section, value, _ in SYMBOL.iter_unpack(table)
            if name and section != SHN_UNDEF
        ]
        entry = next((place for name, place in rows if name == "init_module"), None)
        return next(
            (name for name, place in rows if place == entry and not name.startswith(("$", ".L"))), ""
        )

    def exports(self) -> dict[str, Export]:
        """The symbols that this module exports, by name.

        Raises FormatError if this is not a relocatable file, or there is no .symtab.
        """
        if self.type != ET_REL:
            raise FormatError("not a relocatable file, so not a module")
        return exports(self)

    def dynamic_exports(self) -> frozenset[str]:
        """Names of the symbols that a shared library exports, without their versions.

        Raises FormatError if there is no .dynsym.
        """
        table, strings = self.symbols(SHT_DYNSYM, "dynamic symbol table")
        _bound(len(table) // SYMBOL.size, "dynamic symbols")
        return frozenset(
            strings.at(name)
            for name, info, _, section, _, _ in SYMBOL.iter_unpack(table)
            if name and section != SHN_UNDEF and info >> 4 != STB_LOCAL
        )

    def dynamic_imports(self) -> frozenset[str]:
        """Names of the symbols that a shared library needs of others. Raises FormatError without .dynsym."""
        table, strings = self.symbols(SHT_DYNSYM, "dynamic symbol table")
        _bound(len(table) // SYMBOL.size, "dynamic symbols")
        return frozenset(
            strings.at(name)
            for name, _, _, section, _, _ in SYMBOL.iter_unpack(table)
            if name and section == SHN_UNDEF
        )

    # -- a module's sections -----------------------------------------------------------------------

    def versions(self) -> dict[str, int] | None:
        """The CRC that this module expects of each symbol it uses; None if built without symbol versions.

        Source: Linux kernel/module/version.c, check_version() and modversion_ext_start(): if the extended
        form (6.14 and later) exists, only that counts.
        """
        crcs, names = self.section("__version_ext_crcs"), self.section("__version_ext_names")
        if crcs is not None and names is not None:
            return _extended_versions(crcs, names)
        records = self.section("__versions")
        if records is None:
            return None
        count = len(records) // _VERSION.size
        _bound(count, "symbol versions")
        whole = _VERSION.iter_unpack(records[: count * _VERSION.size])
        return {text(name.partition(b"\0")[0]): crc for crc, name in whole}

    def modinfo(self) -> tuple[tuple[str, str], ...]:
        """Tags and values of .modinfo in the file's order. Raises FormatError if there is no .modinfo.

        Source: Linux include/linux/moduleparam.h, __MODULE_INFO: strings `tag=value`, separated by zero
        bytes.
        """
        content = self.section(".modinfo")
        if content is None:
            raise FormatError("there is no .modinfo section")
        packed = bytes(content)
        _bound(packed.count(b"="), "tags")
        entries = (text(match[0]).partition("=") for match in re.finditer(rb"[^\0]+", packed))
        return tuple((tag, value) for tag, equals, value in entries if equals)

    def this_module_name(self) -> str | None:
        """The name under which the kernel lists this module; None if this is not a module.

        Source: Linux include/linux/module.h, struct module.
        """
        content = self.section(".gnu.linkonce.this_module")
        if content is None:
            return None
        name = bytes(content[_THIS_MODULE_NAME]).partition(b"\0")[0]
        if not name:
            raise FormatError("the module has no name")
        return text(name)


def _undefined(table: memoryview) -> Iterator[int]:
    """Indexes of the symbols in section 0, found by a search for zero bytes, since there are few of them."""
    low, high = bytes(table[6 :: SYMBOL.size]), bytes(table[7 :: SYMBOL.size])
    index = low.find(0)
    while index >= 0:
        if high[index] == SHN_UNDEF:
            yield index
        index = low.find(0, index + 1)


def _extended_versions(crcs: memoryview, names: memoryview) -> dict[str, int]:
    """CRCs by name, from two parallel lists."""
    count = len(crcs) // _U32.size
    _bound(count, "symbol versions")
    texts = bytes(names).split(b"\0", count)[:count]
    if len(texts) < count:
        raise FormatError("there are more symbol versions than names for them")
    values = _U32.iter_unpack(crcs[: count * _U32.size])
    return {text(name): crc for name, (crc,) in zip(texts, values, strict=True)}


def _bound(count: int, called: str) -> None:
    if count > SECTIONS_LIMIT:
        raise FormatError(f"more {called} than any module or library has")
