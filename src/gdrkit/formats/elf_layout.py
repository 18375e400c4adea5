"""The layout of an ELF file: header, sections, string tables, symbol tables.

64-bit little endian only, as on every machine with GPUDirect RDMA. It is safe for malicious files: each
offset is checked before use, and time and memory stay within a small multiple of the file's size.

Sources: System V gABI, chapter 4; Linux kernel/module/main.c, elf_validity_cache_copy() and the functions
that it calls, for what makes a module invalid.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

from msgspec import Struct

from gdrkit.formats.errors import FormatError

Buffer: TypeAlias = bytes | bytearray | memoryview  # anything for `memoryview()`, also a mapped file

ET_REL, ET_DYN = 1, 3
SHT_NULL, SHT_SYMTAB, SHT_NOBITS, SHT_DYNSYM = 0, 2, 8, 11
SHF_ALLOC = 2
SHN_UNDEF, SHN_ABS = 0, 0xFFF1
STB_LOCAL, STB_WEAK = 0, 2

_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")

# Maximum number of names, tags or symbols in one file; it limits memory. Debian's largest modules have 1,603
# tags and 1,161 undefined symbols (measured: 6.1 and 6.12).
SECTIONS_LIMIT = 1 << 18


class ElfIdentity(Struct, frozen=True):
    """The contents of the first 20 bytes of an ELF file, of any class and byte order."""

    bits: int  # 32 or 64
    little_endian: bool
    machine: int  # e_machine: 62 is x86-64, 183 is AArch64
    type: int  # e_type: 1 is relocatable (a module), 3 is a shared library


class ElfSection(Struct, frozen=True):
    """One row of the section table."""

    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    entry_size: int


class StringTable:
    """A string table. The total size of the names read from it is limited to a few times its size."""

    __slots__ = ("_left", "_names", "content")

    def __init__(self, content: bytes) -> None:
        # The kernel refuses both kinds of table too: elf_validity_cache_secstrings(), _cache_strtab().
        if not content or content[-1]:
            raise FormatError("a string table does not end in a zero byte")
        self.content = content
        self._names: dict[int, str] = {}
        # Linkers let names share their endings (-O2), so the total can be larger than the table, by less
        # than this.
        self._left = 8 * len(content) + 65536

    def at(self, offset: int) -> str:
        """The name at an offset. Raises FormatError if it is outside the table."""
        name = self._names.get(offset)
        if name is None:
            if offset >= len(self.content):
                raise FormatError("a name is outside its string table")
            end = self.content.index(0, offset)
            self._left -= end - offset
            if self._left < 0:
                raise FormatError("names in a string table overlap without end")
            name = self._names[offset] = text(self.content[offset:end])
        return name


class ElfLayout:
    """The sections of an ELF file. Only the section table is parsed at first."""

    __slots__ = ("_by_name", "_identity", "_strings", "_view", "sections")

    def __init__(self, identity: ElfIdentity, view: memoryview) -> None:
        self._identity, self._view = identity, view
        self.sections = _sections(view)
        self._strings: dict[int, StringTable] = {}
        self._by_name: dict[str, ElfSection] = {}
        for section in self.sections:
            # The kernel uses only sections that are loaded: find_sec(). So these take precedence.
            first = self._by_name.setdefault(section.name, section)
            if section.flags & SHF_ALLOC and not first.flags & SHF_ALLOC:
                self._by_name[section.name] = section

    def section(self, name: str) -> memoryview | None:
        """A section's content, not copied; None if there is no such section.

        Raises FormatError if the section has no content, as in a module without its code.
        """
        section = self._by_name.get(name)
        return None if section is None else self.content(section)

    def size_of(self, name: str) -> int | None:
        """A section's declared size in bytes, with or without content; None if there is no such section."""
        section = self._by_name.get(name)
        return None if section is None else section.size

    def content(self, section: ElfSection) -> memoryview:
        """A section's content, not copied. Raises FormatError if it has none in this file."""
        if section.type in (SHT_NULL, SHT_NOBITS):
            raise FormatError(f"section {section.name} has no content in this file")
        return self._view[section.offset : section.offset + section.size]

    def symbols(self, kind: int, called: str) -> tuple[memoryview, StringTable]:
        """The only symbol table of a type, without incomplete symbols, and its names. Raises FormatError."""
        tables = [section for section in self.sections if section.type == kind]
        if len(tables) != 1:
            raise FormatError(f"there are {len(tables)} {called}s" if tables else f"there is no {called}")
        if tables[0].link >= len(self.sections):
            raise FormatError(f"the {called} has no string table")
        table = self.content(tables[0])
        return table[: len(table) - len(table) % SYMBOL.size], self._strings_of(tables[0].link)

    def strings(self, index: int, name: str) -> StringTable:
        """A section by number as a string table; it must have the given name."""
        if index >= len(self.sections) or self.sections[index] is not self._by_name.get(name):
            raise FormatError(f"a string is not in section {name}")  # also limits how much is copied
        return self._strings_of(index)

    def _strings_of(self, index: int) -> StringTable:
        if index not in self._strings:
            self._strings[index] = StringTable(bytes(self.content(self.sections[index])))
        return self._strings[index]


def identify(data: Buffer) -> ElfIdentity:
    """Class, byte order, machine and type of any ELF file. Raises FormatError for other files.

    Source: gABI chapter 4, e_ident, e_type, e_machine.
    """
    head = bytes(data[:20])
    if head[:4] != b"\x7fELF":
        raise FormatError("not an ELF file" if head else "the file is empty")
    if len(head) < 20:
        raise FormatError("the ELF header is cut off")
    if head[4] not in (1, 2) or head[5] not in (1, 2):
        raise FormatError("unknown class or byte order in the ELF header")
    little = head[5] == 1
    kind, machine = struct.unpack_from("<HH" if little else ">HH", head, 16)
    return ElfIdentity(32 * head[4], little, machine, kind)


def _sections(view: memoryview) -> tuple[ElfSection, ...]:
    """The section table; each section is checked to be inside the file."""
    if len(view) < _HEADER.size:
        raise FormatError("the ELF header is cut off")
    _, _, _, _, _, start, _, _, _, _, entry_size, count, names_index = _HEADER.unpack_from(view)
    # e_shnum has 16 bits; like the kernel's loader, this does not support more sections (gABI, SHN_XINDEX).
    if entry_size != _SECTION.size or not count:
        raise FormatError("the ELF file has no section table")
    if start > len(view) or count * _SECTION.size > len(view) - start:
        raise FormatError("the section table is cut off")
    if names_index >= count:
        raise FormatError("the index of the section names is outside the section table")
    rows = list(_SECTION.iter_unpack(view[start : start + count * _SECTION.size]))
    for row in rows:
        if row[1] not in (SHT_NULL, SHT_NOBITS) and (row[4] > len(view) or row[5] > len(view) - row[4]):
            raise FormatError("a section reaches beyond the end of the file")
    if rows[names_index][1] in (SHT_NULL, SHT_NOBITS):
        raise FormatError("the section names have no content")
    offset, size = rows[names_index][4:6]
    names = StringTable(bytes(view[offset : offset + size]))
    return tuple(
        ElfSection(names.at(name), kind, flags, offset, size, link, entry)
        for name, kind, flags, _, offset, size, link, _, _, entry in rows
    )


def text(content: bytes) -> str:
    """Bytes as text; those that are not UTF-8 become U+FFFD."""
    return content.decode("utf-8", "replace")
