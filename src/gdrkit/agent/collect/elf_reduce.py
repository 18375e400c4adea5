"""Reduce ELF files to the sections that matter for loading a module or linking a library.

A reduced module has the header, the section table and the signature of the original. Removed sections become
SHT_NOBITS and keep their size; .symtab and .strtab keep what a loader resolves. A file that the kernel would
refuse as invalid is not changed, because its damage is evidence.

Sources: System V gABI chapter 4; Linux kernel/module/main.c (elf_validity_*) for what is invalid, and
include/linux/export-internal.h for the names that exports add.
"""

from __future__ import annotations

import re
import struct
from mmap import mmap
from typing import FrozenSet, List, NamedTuple, Optional, Tuple, Union

Buffer = Union[bytes, mmap]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

_NULL, _SYMTAB, _NOBITS, _SYMTAB_SHNDX = 0, 2, 8, 18
_ALIGNMENT_LIMIT = 4096  # a page; modules use 1 to 64

KEEP_OF_MODULE = re.compile(
    rb"\.modinfo\0|__versions\0|__version_ext_|__ksymtab|__kcrctab|__kflagstab|\.export_symbol\0|"
    rb"\.gnu\.linkonce\.this_module\0|\.note"
)
KEEP_OF_LIBRARY = re.compile(rb"\.dynsym\0|\.dynstr\0|\.dynamic\0|\.gnu\.version|\.note|\.gnu_debuglink\0")
_EXPORTED = b"__ksymtab_"
_LOCAL_OF_EXPORTS = re.compile(rb"__(?:crc|flags|ksymtab|kstrtab|kstrtabns|export_symbol)_")


class Reduced(NamedTuple):
    """A reduced file, and the symbols that link it to others."""

    data: bytes
    linked: FrozenSet[bytes]  # imported and exported


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def reduce(data: Buffer, keep: "re.Pattern[bytes]") -> Optional[Reduced]:
    """The file with the content of the matching sections only; None if it is not a valid 64-bit
    little-endian ELF file."""
    sections = _sections(data)
    if sections is None:
        return None
    header = _HEADER.unpack_from(data)
    names = _content(data, sections[header[13]])
    kept: List[bytes] = [b""] * len(sections)
    linked: FrozenSet[bytes] = frozenset()
    is_kept = [False] * len(sections)
    for index, section in enumerate(sections):
        if section.kind not in (_NULL, _NOBITS) and (index == header[13] or keep.match(names, section.name)):
            kept[index], is_kept[index] = _content(data, section), True
    tables = [index for index, section in enumerate(sections) if section.kind == _SYMTAB]
    if any(section.kind == _SYMTAB_SHNDX for section in sections) or len(tables) > 1:
        return None
    if tables:
        table, strings = tables[0], sections[tables[0]].link
        if (
            not 0 < strings < len(sections)
            or sections[strings].kind in (_NULL, _NOBITS)
            or strings == header[13]
        ):
            return None
        reduced = _symbols(_content(data, sections[table]), _content(data, sections[strings]))
        if reduced is None:
            return None
        kept[table], kept[strings], local, linked = reduced
        is_kept[table] = is_kept[strings] = True
        sections[table] = sections[table]._replace(info=local)
    return Reduced(_written(data, header, sections, kept, is_kept), linked)


def linked(data: Buffer) -> FrozenSet[bytes]:
    """The symbols that a module imports or exports; empty if it is not a valid ELF file."""
    reduced = reduce(data, re.compile(rb"(?!)"))
    return reduced.linked if reduced else frozenset()


def _sections(data: Buffer) -> Optional[List[_Section]]:
    """The section table if the kernel would accept it, else None."""
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        return None
    header = _HEADER.unpack_from(data)
    start, size, count, names = header[6], header[11], header[12], header[13]
    if size != _SECTION.size or not count or start > len(data) or count * size > len(data) - start:
        return None
    table = [_Section(*row) for row in _SECTION.iter_unpack(data[start : start + count * size])]
    for section in table:
        if section.kind not in (_NULL, _NOBITS) and section.offset + section.size > len(data):
            return None
    if not 0 < names < count or table[names].kind in (_NULL, _NOBITS):
        return None
    strings = _content(data, table[names])
    if not strings or strings[-1] or any(section.name >= len(strings) for section in table):
        return None
    return table


def _content(data: Buffer, section: _Section) -> bytes:
    return data[section.offset : section.offset + section.size]


def _symbols(table: bytes, strings: bytes) -> Optional[Tuple[bytes, bytes, int, FrozenSet[bytes]]]:
    """Symbol and string table without the local symbols that a loader ignores, the number of local symbols
    kept, and the names imported or exported. None if a name is outside the string table, or is not ended."""
    if len(table) % _SYMBOL.size or not strings or strings[-1]:
        return None
    kept: List[Tuple[bool, Tuple[int, int, int, int, int, int], bytes]] = []
    linked = set()
    entry = _entry(table, strings)
    left = (
        8 * len(strings) + 65536
    )  # names may share suffixes; a table that overlaps far more than that is hostile
    for index, symbol in enumerate(_SYMBOL.iter_unpack(table)):
        name, info, _, section_index = symbol[:4]
        if name >= len(strings):
            return None
        local = info >> 4 == 0
        ignored = index and local and section_index and not _LOCAL_OF_EXPORTS.match(strings, name)
        if ignored and (section_index, symbol[4]) != entry:
            continue
        text = strings[name : strings.index(0, name)]
        left -= len(text)
        if left < 0:
            return None
        if text and not section_index:
            linked.add(text)
        elif text.startswith(_EXPORTED):
            linked.add(text[len(_EXPORTED) :])
        kept.append((local, symbol, text))
    rows, texts, offsets = [], bytearray(b"\0"), {b"": 0}
    for _, symbol, text in kept:
        if text not in offsets:
            offsets[text] = len(texts)
            texts += text + b"\0"
        rows.append(_SYMBOL.pack(offsets[text], *symbol[1:]))
    return b"".join(rows), bytes(texts), sum(local for local, _, _ in kept), frozenset(linked)


def _entry(table: bytes, strings: bytes) -> Optional[Tuple[int, int]]:
    """The section and offset of the init function, whose own name initcall_blacklist= compares."""
    name = strings.find(b"\0init_module\0") + 1
    for symbol in _SYMBOL.iter_unpack(table) if name else ():
        if symbol[0] == name:
            return symbol[3], symbol[4]
    return None


def _written(
    data: Buffer,
    header: Tuple[int, ...],
    sections: List[_Section],
    kept: List[bytes],
    is_kept: List[bool],
) -> bytes:
    out = bytearray(_HEADER.size)
    program_start, program_size = header[5], header[9] * header[10]
    if header[10] and program_start + program_size <= len(data):
        out += data[program_start : program_start + program_size]
        program_start = _HEADER.size
    rows = []
    for index, section in enumerate(sections):
        if is_kept[index]:
            out += bytes(-len(out) % _alignment(section))
            section = section._replace(offset=len(out), size=len(kept[index]))
            out += kept[index]
        elif section.kind != _NULL:
            section = section._replace(kind=_NOBITS, offset=len(out))
        rows.append(_SECTION.pack(*section))
    out += bytes(-len(out) % 8)
    fields = list(header)
    fields[5], fields[6] = program_start, len(out)
    out[: _HEADER.size] = _HEADER.pack(*fields)
    return bytes(out) + b"".join(rows)


def _alignment(section: _Section) -> int:
    wanted = section.alignment
    return wanted if 0 < wanted <= _ALIGNMENT_LIMIT and wanted & (wanted - 1) == 0 else 1
