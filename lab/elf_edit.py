"""Byte edits of module files (ELF64, little endian), to damage them in specific ways."""

from __future__ import annotations

import struct

from lab.cache import LabError

_VERSION_ENTRY = 64  # struct modversion_info: unsigned long crc; char name[56] (include/linux/module.h)


def sections(content: bytes) -> dict[str, tuple[int, int]]:
    """Name -> (offset, size) of every section."""
    return {name: struct.unpack_from("<QQ", content, at + 0x18) for name, at in _headers(content).items()}


def _headers(content: bytes) -> dict[str, int]:
    """Name -> offset of the section's header (Elf64_Shdr: sh_offset at 0x18, sh_size at 0x20)."""
    table, entry_size, count, names_index = _header(content)
    (names,) = struct.unpack_from("<Q", content, table + names_index * entry_size + 0x18)
    found = {}
    for at in range(table, table + count * entry_size, entry_size):
        start = names + struct.unpack_from("<I", content, at)[0]
        found[content[start : content.index(b"\0", start)].decode()] = at
    return found


def _header(content: bytes) -> tuple[int, int, int, int]:
    if content[:6] != b"\x7fELF\x02\x01":
        raise LabError("not an ELF64 little endian file")
    (table,) = struct.unpack_from("<Q", content, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", content, 0x3A)
    return table, entry_size, count, names_index


def replace_once(content: bytes, old: bytes, new: bytes) -> bytes:
    """The content with the only occurrence of some bytes replaced by others of the same length."""
    if content.count(old) != 1 or len(old) != len(new):
        raise LabError(f"{old!r} occurs {content.count(old)} times")
    return content.replace(old, new)


def edit_modinfo(content: bytes, field: str, old: str, new: str) -> bytes:
    """A .modinfo value changed in place; a shorter one is padded with NULs, as between entries."""
    offset, size = sections(content)[".modinfo"]
    entry = f"{field}={old}\0".encode()
    start = content.find(entry, offset, offset + size)
    changed = f"{field}={new}".encode().ljust(len(entry), b"\0")
    if start < 0 or len(changed) > len(entry):
        raise LabError(f"cannot turn {field}={old} into {new}")
    return content[:start] + changed + content[start + len(entry) :]


def modinfo(content: bytes, field: str) -> str:
    """The first .modinfo value of a field."""
    offset, size = sections(content)[".modinfo"]
    for entry in content[offset : offset + size].split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key.decode() == field:
            return value.decode()
    raise LabError(f"no {field} in .modinfo")


def edit_version(content: bytes, symbol: str, *, name: str | None = None) -> bytes:
    """One bit of a symbol's expected CRC changed; or the entry renamed, so that the symbol has none."""
    offset, size = sections(content)["__versions"]
    edited = bytearray(content)
    for at in range(offset, offset + size, _VERSION_ENTRY):
        if content[at + 8 : at + _VERSION_ENTRY].split(b"\0")[0].decode() == symbol:
            if name is None:
                edited[at] ^= 1
            else:
                edited[at + 8 : at + _VERSION_ENTRY] = name.encode().ljust(_VERSION_ENTRY - 8, b"\0")
            return bytes(edited)
    raise LabError(f"no CRC of {symbol} in __versions")


def rename_section(content: bytes, old: str, new: str) -> bytes:
    """A section's name changed in place to one of the same length."""
    table, entry_size, _, names_index = _header(content)
    (start,) = struct.unpack_from("<Q", content, table + names_index * entry_size + 0x18)
    (size,) = struct.unpack_from("<Q", content, table + names_index * entry_size + 0x20)
    names = content[start : start + size]
    return (
        content[:start]
        + replace_once(names, f"\0{old}\0".encode(), f"\0{new}\0".encode())
        + content[start + size :]
    )


def grow_section(content: bytes, name: str, more: int) -> bytes:
    """A section's size in its header increased; the bytes do not move."""
    at = _headers(content)[name] + 0x20
    (size,) = struct.unpack_from("<Q", content, at)
    return content[:at] + struct.pack("<Q", size + more) + content[at + 8 :]


def set_machine(content: bytes, machine: int) -> bytes:
    """e_machine replaced."""
    return content[:0x12] + struct.pack("<H", machine) + content[0x14:]


def set_answer(content: bytes, magic: int, answer: int) -> bytes:
    """Set init's return value, for which the compiled file has a magic number."""
    return replace_once(content, struct.pack("<i", magic), struct.pack("<i", answer))


def flip(content: bytes, section: str) -> bytes:
    """The last byte of a section changed, which breaks a signature. Raises LabError for an empty section."""
    offset, size = sections(content)[section]
    if not size:
        raise LabError(f"{section} is empty")
    at = offset + size - 1
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
