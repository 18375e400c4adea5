"""Keys and hashes that firmware and shim trust or revoke: the EFI variables db, dbx, MokListRT.

Source: UEFI specification 2.10, section 32.4.1, EFI_SIGNATURE_LIST and EFI_SIGNATURE_DATA; little endian.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from gdrkit.formats.errors import FormatError

# Same section; names as in the kernel's include/linux/efi.h, if it has one.
_KINDS = {
    "a5c059a1-94e4-4aa7-87b5-ab155c2bf072": "x509",
    "c1c41626-504c-4092-aca9-41f936934328": "sha256",
    "826ca512-cf10-4ac9-b187-be01496631bd": "sha1",
    "0b6e5233-a65c-44c9-9407-d9ab83bfc8bd": "sha224",
    "ff3e5307-9fd0-48c9-85f1-8ad56c701e01": "sha384",
    "093e0fae-a6c4-4f50-9f1b-d41e2b89c19a": "sha512",
    "3c5766e8-269c-4e34-aa14-ed776e85b3b6": "rsa2048",
    "e2b36190-879b-4a3d-ad8d-f2e7bba32784": "rsa2048-sha256",
    "67f8444f-8743-48f1-a328-1eaab8736080": "rsa2048-sha1",
    "3bd2a492-96c0-4079-b420-fcf98ef103ed": "x509-sha256",
    "7076876e-80c2-4ee6-aad2-28b349a6865b": "x509-sha384",
    "446dbf63-2502-4cda-bcfa-2465d2b0fe9d": "x509-sha512",
    "4aafd29d-68df-49ee-8aa9-347d375665a7": "pkcs7",
}
_LIST = struct.Struct("<16sIII")  # SignatureType, SignatureListSize, SignatureHeaderSize, SignatureSize
_OWNER_BYTES = 16
_ATTRIBUTE_BYTES = 4  # Linux Documentation/filesystems/efivarfs.rst


class EfiSignature(Struct, frozen=True):
    """One key or hash."""

    kind: str  # "x509", "sha256", ...; the type's GUID if it is not in _KINDS
    owner: str  # GUID of the agent that enrolled it
    data: bytes  # DER of a certificate, or the hash


def parse(data: bytes, attributes: bool) -> tuple[EfiSignature, ...]:
    """The entries of all lists in a variable, in order; none if the variable is empty.

    `attributes` means that four bytes of attributes come first, as in efivarfs. Raises FormatError.
    """
    offset = 0
    if attributes:
        if len(data) < _ATTRIBUTE_BYTES:
            raise FormatError("the variable is shorter than its attributes")
        offset = _ATTRIBUTE_BYTES
    entries: list[EfiSignature] = []
    while offset < len(data):
        if len(data) - offset < _LIST.size:
            raise FormatError("the header of a signature list is cut off")
        kind, list_size, header_size, size = _LIST.unpack_from(data, offset)
        end = offset + list_size
        start = offset + _LIST.size + header_size
        if list_size < _LIST.size or end > len(data):
            raise FormatError("a signature list reaches beyond its variable")
        if start > end or size <= _OWNER_BYTES or (end - start) % size:
            raise FormatError("the sizes in a signature list contradict each other")
        name = _guid(kind)
        name = _KINDS.get(name, name)
        for at in range(start, end, size):
            owner = _guid(data[at : at + _OWNER_BYTES])
            entries.append(EfiSignature(name, owner, bytes(data[at + _OWNER_BYTES : at + size])))
        offset = end
    return tuple(entries)


def _guid(data: bytes) -> str:
    """A GUID as text. Source: UEFI specification 2.10, appendix A: the first three fields are swapped."""
    first, second, third = struct.unpack_from("<IHH", data)
    return f"{first:08x}-{second:04x}-{third:04x}-{data[8:10].hex()}-{data[10:16].hex()}"
