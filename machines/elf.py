"""Kernel modules and shared libraries as ELF files with every section that loaders and tools read.

Their code is a few bytes and never runs. Sources: System V ABI (ELF-64); Linux scripts/mod/modpost.c,
include/linux/export-internal.h (__ksymtab, __kcrctab), include/linux/module.h."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

ARCHITECTURES = {"x86_64": 62, "aarch64": 183}
_WRITE, _ALLOC, _CODE = 1, 2, 4


class Export(NamedTuple):
    """One exported symbol."""

    name: str
    checksum: int
    gpl_only: bool = False
    namespace: str = ""


class _Section(NamedTuple):
    name: str
    kind: int
    flags: int
    body: bytes
    link: int = 0
    info: int = 0
    entry: int = 0
    align: int = 8


class _Strings:
    """A string table."""

    def __init__(self) -> None:
        self.body = bytearray(b"\0")

    def add(self, text: str) -> int:
        at = len(self.body)
        self.body += text.encode() + b"\0"
        return at


def module(
    name: str,
    info: Iterable[tuple[str, str]],
    imports: Mapping[str, int],
    exports: Iterable[Export],
    architecture: str,
    layout_checksum: int,
    build_id: bytes = b"",
) -> bytes:
    """An unsigned module. `info`: the pairs of .modinfo; `imports`: checksums by symbol."""
    checksums = {"module_layout": layout_checksum, **imports}
    record = struct.Struct("<Q56s")
    versions = b"".join(record.pack(crc, symbol.encode()[:55]) for symbol, crc in checksums.items())
    modinfo = b"".join(f"{field}={text}".encode() + b"\0" for field, text in info)
    self_size = 0x500 if architecture == "x86_64" else 0x440
    this = (bytes(24) + name.encode()).ljust(self_size, b"\0")
    sections = [
        _Section("", 0, 0, b"", align=0),
        _Section(".text", 1, _ALLOC | _CODE, b"\xc3" * 48, align=16),
        _Section(".init.text", 1, _ALLOC | _CODE, b"\x31\xc0\xc3\xcc", align=16),
        _Section(".modinfo", 1, _ALLOC, modinfo, align=1),
        _Section("__versions", 1, _ALLOC, versions, align=32),
        _Section(".gnu.linkonce.this_module", 1, _ALLOC | _WRITE, this, align=64),
    ]
    if build_id:
        sections.append(_Section(".note.gnu.build-id", 7, _ALLOC, build_id, align=4))
    strings = _Strings()
    local, public = [bytes(24)], []
    public.append(_symbol(strings.add("init_module"), 0x12, 2, 0, 4))
    public.append(_symbol(strings.add("__this_module"), 0x11, 5, 0, self_size))
    _export(sections, strings, local, public, sorted(exports))
    public += [_symbol(strings.add(symbol), 0x10, 0, 0, 0) for symbol in imports]
    table = b"".join(local + public)
    sections.append(_Section(".symtab", 2, 0, table, len(sections) + 1, len(local), 24))
    sections.append(_Section(".strtab", 3, 0, bytes(strings.body), align=1))
    return _file(sections, 1, ARCHITECTURES[architecture])


def _export(
    sections: list[_Section],
    strings: _Strings,
    local: list[bytes],
    public: list[bytes],
    exports: list[Export],
) -> None:
    if not exports:
        return
    at_names = len(sections)
    names = bytearray()
    sections.append(_Section("__ksymtab_strings", 1, _ALLOC, b"", align=1))
    for suffix, gpl_only in (("", False), ("_gpl", True)):
        chosen = [export for export in exports if export.gpl_only == gpl_only]
        if not chosen:
            continue
        at = len(sections)
        crcs = b"".join(struct.pack("<I", export.checksum) for export in chosen)
        sections.append(_Section("__ksymtab" + suffix, 1, _ALLOC, bytes(12 * len(chosen)), align=4))
        sections.append(_Section("__kcrctab" + suffix, 1, _ALLOC, crcs, align=4))
        for index, export in enumerate(chosen):
            public.append(_symbol(strings.add(export.name), 0x12, 1, 0, 8))
            local.append(_symbol(strings.add("__ksymtab_" + export.name), 0, at, 12 * index, 0))
            local.append(_symbol(strings.add("__crc_" + export.name), 0, at + 1, 4 * index, 0))
            local.append(_symbol(strings.add("__kstrtab_" + export.name), 0, at_names, len(names), 0))
            names += export.name.encode() + b"\0"
            local.append(_symbol(strings.add("__kstrtabns_" + export.name), 0, at_names, len(names), 0))
            names += export.namespace.encode() + b"\0"
    sections[at_names] = sections[at_names]._replace(body=bytes(names))


def library(soname: str, functions: Iterable[str], architecture: str, data: bytes = b"") -> bytes:
    """A shared library that defines these functions; `data` becomes its constants."""
    strings = _Strings()
    at_name = strings.add(soname)
    symbols = bytes(24) + b"".join(_symbol(strings.add(name), 0x12, 1, 0x1000, 16) for name in functions)
    dynamic = struct.pack("<QQQQ", 14, at_name, 0, 0)  # DT_SONAME, DT_NULL
    return _file(
        [
            _Section("", 0, 0, b"", align=0),
            _Section(".text", 1, _ALLOC | _CODE, b"\xc3" * 32, align=16),
            _Section(".rodata", 1, _ALLOC, data, align=1),
            _Section(".dynsym", 11, _ALLOC, symbols, 4, 1, 24),
            _Section(".dynstr", 3, _ALLOC, bytes(strings.body), align=1),
            _Section(".dynamic", 6, _ALLOC | _WRITE, dynamic, 4, 0, 16),
        ],
        3,
        ARCHITECTURES[architecture],
    )


def _symbol(name: int, info: int, section: int, value: int, size: int) -> bytes:
    return struct.pack("<IBBHQQ", name, info, 0, section, value, size)


def _file(sections: list[_Section], kind: int, architecture: int) -> bytes:
    names = _Strings()
    at_names = [names.add(section.name) if section.name else 0 for section in sections]
    at_names.append(names.add(".shstrtab"))
    everything = [*sections, _Section(".shstrtab", 3, 0, bytes(names.body), align=1)]
    body, headers = bytearray(64), b""
    for at_name, section in zip(at_names, everything, strict=True):
        body += bytes(-len(body) % max(section.align, 1))
        offset = len(body) if section.kind else 0
        headers += struct.pack(
            "<IIQQQQIIQQ",
            at_name,
            section.kind,
            section.flags,
            0,
            offset,
            len(section.body),
            section.link,
            section.info,
            section.align,
            section.entry,
        )
        body += section.body
    body += bytes(-len(body) % 8)
    body[:64] = struct.pack(
        "<4s5B7xHHIQQQIHHHHHH",
        b"\x7fELF",
        2,
        1,
        1,
        0,
        0,
        kind,
        architecture,
        1,
        0,
        0,
        len(body),
        0,
        64,
        0,
        0,
        64,
        len(everything),
        len(everything) - 1,
    )
    return bytes(body) + headers
