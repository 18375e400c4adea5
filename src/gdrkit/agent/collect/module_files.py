"""Reduce module files to what a loader reads, the signature, and the digests of the signed content.

Source of the trailer: Linux include/linux/module_signature.h and kernel/module/signing.c, mod_verify_sig().
"""

from __future__ import annotations

import hashlib
import struct
from typing import Dict, FrozenSet, NamedTuple, Optional, Tuple

from . import elf_reduce
from .unpack import DecompressionFailed, DecompressorMissing, compression, is_one_stream, unpack

FILE_LIMIT_BYTES = 256 << 20
"""The largest module, compressed and decompressed: nvidia.ko with debug symbols is about 100 MB."""

HEAD_BYTES = 64
"""More than the headers of xz, with the filters of its first block, and of zstd need."""

BROKEN_LIMIT_BYTES = 16 << 20
"""The most that is kept of a file that cannot be reduced."""

MARKER = b"~Module signature appended~\n"
_TRAILER = struct.Struct(">8xI")  # struct module_signature: eight bytes, then sig_len in network order

_DIGESTS: Tuple[Tuple[str, bytes], ...] = (
    ("sha1", bytes.fromhex("06052b0e03021a")),
    ("sha224", bytes.fromhex("0609608648016503040204")),
    ("sha256", bytes.fromhex("0609608648016503040201")),
    ("sha384", bytes.fromhex("0609608648016503040202")),
    ("sha512", bytes.fromhex("0609608648016503040203")),
    ("sha3_256", bytes.fromhex("0609608648016503040208")),
    ("sha3_384", bytes.fromhex("0609608648016503040209")),
    ("sha3_512", bytes.fromhex("060960864801650304020a")),
)
"""Hashes that the kernel accepts in signatures, by their DER encoding in PKCS#7: Linux
include/linux/oid_registry.h, crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_sig_note_digest_algo().
The names are
those of hashlib."""


class StoredModule(NamedTuple):
    """A module file as a bundle keeps it."""

    data: bytes
    status: str  # found (unchanged), reduced or truncated
    why: str
    digests: Dict[str, str]  # of the signed content; empty if it could not be decompressed
    content_size: int  # bytes of the signed content; 0 if it could not be decompressed
    linked: Optional[FrozenSet[bytes]]  # symbols imported or exported; None: not known
    head: str = ""  # the first bytes of a compressed file, in hex: how it was compressed


def small(raw: bytes, whole: bool) -> StoredModule:
    """A module file, reduced unless `whole` is set or it cannot be reduced."""
    try:
        content = unpack(raw, FILE_LIMIT_BYTES)
    except DecompressorMissing as reason:  # the loader may be able to read it
        return _unchanged(raw, f"not decompressed: {reason}")._replace(linked=None)
    except DecompressionFailed as reason:
        return _unchanged(raw, f"not decompressed: {reason}")
    body, trailer = split(content)
    digests = digests_of(body, trailer)
    if len(raw) <= BROKEN_LIMIT_BYTES and not is_one_stream(raw, len(content)):
        kept = _unchanged(raw, "several streams, of which the kernel reads one")
        return kept._replace(digests=digests, content_size=len(body), linked=elf_reduce.linked(body))
    if whole and len(raw) <= BROKEN_LIMIT_BYTES:
        return StoredModule(raw, "found", "", digests, len(body), elf_reduce.linked(body))
    reduced = elf_reduce.reduce(body, elf_reduce.KEEP_OF_MODULE)
    if reduced is None:
        kept = _unchanged(raw, "not a valid ELF file")
        return kept._replace(digests=digests, content_size=len(body))
    head = raw[:HEAD_BYTES].hex() if compression(raw) else ""
    return StoredModule(reduced.data + trailer, "reduced", "", digests, len(body), reduced.linked, head)


def _unchanged(raw: bytes, why: str) -> StoredModule:
    if len(raw) > BROKEN_LIMIT_BYTES:
        return StoredModule(raw[:BROKEN_LIMIT_BYTES], "truncated", why, {}, 0, frozenset())
    return StoredModule(raw, "found", why, {}, 0, frozenset())


def split(content: bytes) -> Tuple[bytes, bytes]:
    """The signed content and what is appended to it. If the length of the signature is not possible, only
    the trailer counts as appended."""
    if not content.endswith(MARKER):
        return content, b""
    end = len(content) - len(MARKER)
    if end < _TRAILER.size:
        return content[:end], content[end:]
    start = end - _TRAILER.size
    length: int = _TRAILER.unpack_from(content, start)[0]
    if length <= start:
        start -= length
    return content[:start], content[start:]


def digests_of(body: bytes, trailer: bytes) -> Dict[str, str]:
    """Digests of the signed content: sha256, and each hash that the signature names, or all if it names none
    of them."""
    named = {name for name, identifier in _DIGESTS if identifier in trailer}
    if trailer and not named:
        named = {name for name, _ in _DIGESTS}
    found = {}
    for name in sorted(named | {"sha256"}):
        try:
            found[name] = hashlib.new(name, body).hexdigest()
        except ValueError:  # FIPS mode, or an old OpenSSL
            continue
    return found
