"""ELF files of the kernel and of libraries: what a module wants, gives and says of itself. PURE.

64-bit little endian only: every machine that GPUDirect RDMA runs on. Written for hostile files: each offset
is checked before use, and time and memory stay within a small multiple of the file's size.

Sources: System V gABI chapter 4 (header, sections, symbols); Linux kernel/module/main.c
(elf_validity_cache_copy() and what it calls, for what makes a module invalid) and include/linux/module.h.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from gdrkit.evidence import FormatError

if TYPE_CHECKING:
    from mmap import mmap

Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap"

EM_X86_64, EM_AARCH64 = 62, 183
ET_REL, ET_DYN = 1, 3

_SHT_NULL, _SHT_SYMTAB, _SHT_NOBITS, _SHT_DYNSYM = 0, 2, 8, 11
_SHF_ALLOC = 2
_SHN_UNDEF, _SHN_ABS = 0, 0xFFF1
_STB_LOCAL, _STB_WEAK = 0, 2

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NAME = struct.Struct("<I20x")
_PLACE = struct.Struct("<4xBxH16x")
_U32 = struct.Struct("<I")
_VERSION = struct.Struct("<Q56s")  # struct modversion_info, include/linux/module.h
_THIS_MODULE_NAME = 24, 56  # offset and size of struct module.name on 64-bit machines; same file

_EXPORT_NAME = rb"__(?:crc|ksymtab|kstrtabns|export_symbol)_"


class Identity(Struct, frozen=True):
    """What the first 20 bytes of an ELF file say, of any class and byte order."""

    bits: int  # 32 or 64
    little_endian: bool
    machine: int  # e_machine: 62 is x86-64, 183 is AArch64
    type: int  # e_type: 1 is relocatable (a module), 3 is a shared library


class Section(Struct, frozen=True):
    """One row of the section table."""

    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    entry_size: int


class Undefined(Struct, frozen=True):
    """A symbol that somebody else must provide; a weak one may stay missing."""

    name: str
    weak: bool


class Export(Struct, frozen=True):
    """A symbol that a module or the kernel offers to modules."""

    crc: int | None  # None if built without symbol versions
    gpl_only: bool
    namespace: str  # empty if in none


class _Strings:
    """A string table. All names read from one table may not be longer than a few times that table."""

    __slots__ = ("content", "left")

    def __init__(self, content: bytes) -> None:
        # The kernel refuses both kinds of table too: elf_validity_cache_secstrings(), _cache_strtab().
        if not content or content[-1]:
            raise FormatError("a string table does not end in a zero byte")
        self.content = content
        # Linkers let names share tails, so names may sum up to more than the table, by less than this.
        self.left = 8 * len(content) + 65536

    def at(self, offset: int) -> str:
        if offset >= len(self.content):
            raise FormatError("a name lies outside its string table")
        end = self.content.index(0, offset)
        self.left -= end - offset
        if self.left < 0:
            raise FormatError("names in a string table overlap without end")
        return self.content[offset:end].decode("utf-8", "replace")


def identify(data: Buffer) -> Identity:
    """Class, byte order, machine and type, for any ELF file. Raises FormatError if it is none.

    Source: gABI chapter 4, e_ident, e_type, e_machine.
    """
    head = bytes(data[:20])
    if head[:4] != b"\x7fELF":
        raise FormatError("not an ELF file" if head else "the file is empty")
    if len(head) < 20:
        raise FormatError("the ELF header is cut off")
    if head[4] not in (1, 2) or head[5] not in (1, 2):
        raise FormatError("the ELF header names no known class and byte order")
    little = head[5] == 1
    kind, machine = struct.unpack_from("<HH" if little else ">HH", head, 16)
    return Identity(32 * head[4], little, machine, kind)


def parse(data: Buffer) -> Elf:
    """An ELF file by its section table. Nothing but that table is read until asked.

    Raises FormatError for what the kernel would refuse as an invalid ELF file, and for 32-bit and big-endian
    ones. Holds a view of `data`: a map that is given must stay open.
    """
    identity = identify(data)
    if identity.bits != 64:
        raise FormatError("a 32-bit ELF file, not a 64-bit one")
    if not identity.little_endian:
        raise FormatError("a big-endian ELF file, not a little-endian one")
    view = memoryview(data).toreadonly().cast("B")
    return Elf(identity, view, _sections(view))


def _sections(view: memoryview) -> tuple[Section, ...]:
    """The section table, each row checked to lie in the file."""
    if len(view) < _HEADER.size:
        raise FormatError("the ELF header is cut off")
    _, _, _, _, _, start, _, _, _, _, entry_size, count, names_index = _HEADER.unpack_from(view)
    # e_shnum is 16 bits; the escape for more (gABI, SHN_XINDEX) is not in the kernel's loader either.
    if entry_size != _SECTION.size or not count:
        raise FormatError("the ELF file has no section table")
    if start > len(view) or count * _SECTION.size > len(view) - start:
        raise FormatError("the section table is cut off")
    if names_index >= count:
        raise FormatError("the section names lie outside the section table")
    rows = list(_SECTION.iter_unpack(view[start : start + count * _SECTION.size]))
    for row in rows:
        if row[1] not in (_SHT_NULL, _SHT_NOBITS) and (row[4] > len(view) or row[5] > len(view) - row[4]):
            raise FormatError("a section reaches beyond the end of the file")
    if rows[names_index][1] in (_SHT_NULL, _SHT_NOBITS):
        raise FormatError("the section names have no content")
    offset, size = rows[names_index][4:6]
    names = _Strings(bytes(view[offset : offset + size]))
    return tuple(
        Section(names.at(name), kind, flags, offset, size, link, entry)
        for name, kind, flags, _, offset, size, link, _, _, entry in rows
    )


class Elf:
    """An ELF file's answers, each worked out when first asked."""

    __slots__ = ("_by_name", "_identity", "_strings", "_view", "sections")

    def __init__(self, identity: Identity, view: memoryview, sections: tuple[Section, ...]) -> None:
        self._identity, self._view, self.sections = identity, view, sections
        self._strings: dict[int, _Strings] = {}
        self._by_name: dict[str, Section] = {}
        for section in sections:
            # The kernel sees only sections that are to be loaded: find_sec(). So those come first.
            seen = self._by_name.setdefault(section.name, section)
            if section.flags & _SHF_ALLOC and not seen.flags & _SHF_ALLOC:
                self._by_name[section.name] = section

    @property
    def machine(self) -> int:
        """e_machine: 62 is x86-64, 183 is AArch64."""
        return self._identity.machine

    @property
    def type(self) -> int:
        """e_type: 1 is relocatable (a module), 3 is a shared library."""
        return self._identity.type

    # -- sections ----------------------------------------------------------------------------------

    def section(self, name: str) -> memoryview | None:
        """A section's content, not copied; None if there is no such section.

        Raises FormatError if the section is there without content, as in a module that was reduced.
        """
        section = self._by_name.get(name)
        return None if section is None else self._content(section)

    def size_of(self, name: str) -> int | None:
        """A section's size in bytes as declared, whether or not its content is there; None if no section."""
        section = self._by_name.get(name)
        return None if section is None else section.size

    def _content(self, section: Section) -> memoryview:
        if section.type in (_SHT_NULL, _SHT_NOBITS):
            raise FormatError(f"section {section.name} has no content in this file")
        return self._view[section.offset : section.offset + section.size]

    def _table(self, kind: int, called: str) -> tuple[memoryview, _Strings]:
        """The symbols of a kind, whole ones only, and their names."""
        tables = [section for section in self.sections if section.type == kind]
        if len(tables) != 1:
            raise FormatError(f"there are {len(tables)} {called}s" if tables else f"there is no {called}")
        table = self._content(tables[0])
        return table[: len(table) - len(table) % _SYMBOL.size], self._strings_of(tables[0].link)

    def _strings_of(self, index: int) -> _Strings:
        if index not in self._strings:
            if index >= len(self.sections):
                raise FormatError("the symbols name no string table")
            self._strings[index] = _Strings(bytes(self._content(self.sections[index])))
        return self._strings[index]

    # -- symbols -----------------------------------------------------------------------------------

    def undefined(self) -> tuple[Undefined, ...]:
        """Symbols to be resolved at load, in the file's order.

        Source: Linux kernel/module/main.c, simplify_symbols(). Raises FormatError if there is no .symtab.
        """
        table, strings = self._table(_SHT_SYMTAB, "symbol table")
        names = memoryview(table)
        found = []
        for index, (info, place) in enumerate(_PLACE.iter_unpack(table)):
            if place == _SHN_UNDEF:
                name = _U32.unpack_from(names, index * _SYMBOL.size)[0]
                if name:  # the first symbol, and none else, has no name
                    found.append(Undefined(strings.at(name), info >> 4 == _STB_WEAK))
        return tuple(found)

    def dynamic_exports(self) -> frozenset[str]:
        """Names that a shared library defines for others, without their versions.

        Raises FormatError if there is no .dynsym.
        """
        table, strings = self._table(_SHT_DYNSYM, "dynamic symbol table")
        return frozenset(
            strings.at(name)
            for name, info, _, place, _, _ in _SYMBOL.iter_unpack(table)
            if name and place != _SHN_UNDEF and info >> 4 != _STB_LOCAL
        )

    def exports(self) -> dict[str, Export]:
        """What this module offers to others, by name.

        Source: Linux include/linux/export-internal.h (5.19 and later: local labels in __ksymtab, __kcrctab
        and __ksymtab_strings), include/linux/export.h before (absolute __crc_ symbols, or ones that point
        to the value), include/linux/export.h .export_symbol (objects of 6.4 and later before modpost).
        Raises FormatError if there is no .symtab.
        """
        table, strings = self._table(_SHT_SYMTAB, "symbol table")
        offers: dict[str, bool] = {}
        crcs: dict[str, int] = {}
        namespaces: dict[str, str] = {}
        for symbol in self._export_symbols(table, strings):
            prefix, _, name = strings.at(symbol[0])[2:].partition("_")
            place, value = symbol[3], symbol[4]
            if prefix == "crc":
                crcs[name] = value & 0xFFFFFFFF if place == _SHN_ABS else self._word(place, value)
            elif prefix == "ksymtab":
                offers[name] = self._place(place).name.lstrip("_").startswith("ksymtab_gpl")
            elif prefix == "kstrtabns":
                namespaces[name] = self._strings_of(place).at(value)
            elif prefix == "export":  # __export_symbol_NAME: licence, then namespace
                name = name.removeprefix("symbol_")
                text = self._strings_of(place)
                licence = text.at(value)
                offers[name] = licence == "GPL"
                namespaces[name] = text.at(value + len(licence) + 1)
        return {
            name: Export(crcs.get(name), gpl_only, namespaces.get(name, ""))
            for name, gpl_only in offers.items()
        }

    def _export_symbols(
        self, table: memoryview, strings: _Strings
    ) -> Iterator[tuple[int, int, int, int, int, int]]:
        """The symbols whose names mark exports; most modules have none, so the names are searched first."""
        if not re.search(_EXPORT_NAME, strings.content):
            return
        matches = re.compile(_EXPORT_NAME).match
        for index, (name,) in enumerate(_NAME.iter_unpack(table)):
            if matches(strings.content, name):
                yield _SYMBOL.unpack_from(table, index * _SYMBOL.size)

    def _place(self, index: int) -> Section:
        if index >= len(self.sections):
            raise FormatError("a symbol lies in no section")
        return self.sections[index]

    def _word(self, index: int, offset: int) -> int:
        content = self._content(self._place(index))
        if offset > len(content) - _U32.size:
            raise FormatError("a symbol lies outside its section")
        word: int = _U32.unpack_from(content, offset)[0]
        return word

    # -- what a module says of itself --------------------------------------------------------------

    def versions(self) -> dict[str, int] | None:
        """The CRC that this module wants of each symbol it uses; None if built without symbol versions.

        Source: Linux kernel/module/version.c, check_version() and modversion_ext_start(): where the extended
        form (6.14 and later) is there, it alone counts.
        """
        crcs, names = self.section("__version_ext_crcs"), self.section("__version_ext_names")
        if crcs is not None and names is not None:
            return _extended_versions(crcs, names)
        records = self.section("__versions")
        if records is None:
            return None
        whole = records[: len(records) - len(records) % _VERSION.size]
        return {_text(name.partition(b"\0")[0]): crc for crc, name in _VERSION.iter_unpack(whole)}

    def modinfo(self) -> tuple[tuple[str, str], ...]:
        """Tags and values of .modinfo in the file's order. Raises FormatError if there is no .modinfo.

        Source: Linux include/linux/moduleparam.h, __MODULE_INFO: strings `tag=value`, zero bytes between.
        """
        content = self.section(".modinfo")
        if content is None:
            raise FormatError("there is no .modinfo section")
        entries = (_text(entry).partition("=") for entry in bytes(content).split(b"\0") if b"=" in entry)
        return tuple((tag, value) for tag, _, value in entries)

    def this_module_name(self) -> str | None:
        """The name under which the kernel will list this module; None if this is not a module.

        Source: Linux include/linux/module.h, struct module: name follows state and list.
        """
        content = self.section(".gnu.linkonce.this_module")
        if content is None:
            return None
        start, size = _THIS_MODULE_NAME
        name = bytes(content[start : start + size]).partition(b"\0")[0]
        if not name:
            raise FormatError("the module has no name")
        return _text(name)

    def note_build_id(self) -> str | None:
        """The build id in hex; None if there is none. Source: gABI chapter 5, Note Section; elf.h."""
        content = self.section(".note.gnu.build-id")
        if content is None:
            return None
        if len(content) < 16:
            raise FormatError("the build id is cut off")
        name_size, size, kind = struct.unpack_from("<III", content)
        if (name_size, kind) != (4, 3) or bytes(content[12:16]) != b"GNU\0" or size > len(content) - 16:
            raise FormatError("the build id is no build id note")
        return bytes(content[16 : 16 + size]).hex()


def _extended_versions(crcs: memoryview, names: memoryview) -> dict[str, int]:
    texts: Iterable[bytes] = bytes(names).split(b"\0")
    whole = crcs[: len(crcs) - len(crcs) % _U32.size]
    versions = {_text(name): crc for name, (crc,) in zip(texts, _U32.iter_unpack(whole), strict=False)}
    if len(versions) * _U32.size != len(whole):
        raise FormatError("the symbol versions and their names differ in number")
    return versions


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
