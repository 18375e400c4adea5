"""The exports of a kernel module: names, CRCs, licence, namespace.

Sources, by kernel: 5.19 and later include/linux/export-internal.h, KSYMTAB and SYMBOL_CRC (local labels
__ksymtab_NAME, __kstrtabns_NAME and __crc_NAME in tables of their own); then SYMBOL_FLAGS (__flags_NAME in
__kflagstab, where KSYM_FLAG_GPL_ONLY of include/linux/module_symbol.h replaces the second table); earlier,
include/linux/export.h (__crc_NAME absolute, or, with MODULE_REL_CRCS, at the value); objects that modpost
has not processed yet have .export_symbol (6.4 and later, include/linux/export.h ___EXPORT_SYMBOL).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from msgspec import Struct

from gdrkit.formats.elf_layout import (
    SECTIONS_LIMIT,
    SHN_ABS,
    SHN_UNDEF,
    SHT_SYMTAB,
    SYMBOL,
    ElfLayout,
    StringTable,
)
from gdrkit.formats.errors import FormatError

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
