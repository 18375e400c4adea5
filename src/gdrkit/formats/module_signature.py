"""Signatures appended to kernel modules: their position, their signer, and whether they are valid.

Sources: Linux include/linux/module_signature.h (the trailer), kernel/module_signature.c and
kernel/module/signing.c (what the kernel refuses), scripts/sign-file.c (how a module is signed: detached, no
attributes), crypto/asymmetric_keys/pkcs7_parser.c and pkcs7_verify.c; RFC 5652, section 5, SignedData.
Why not a library: the PKCS#7 reader of `cryptography` refuses every kernel module (formats/der.py).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.formats import der, x509
from gdrkit.formats.errors import FormatError

if TYPE_CHECKING:
    from gdrkit.formats.elf import Buffer

MARKER = b"~Module signature appended~\n"
_TRAILER = struct.Struct(">5B3xI")  # algo, hash, id_type, signer_len, key_id_len, padding, sig_len
_PKEY_ID_PKCS7 = 2

_SIGNED_DATA, _DATA = "1.2.840.113549.1.7.2", "1.2.840.113549.1.7.1"
_DIGESTS = {  # object identifier -> hashlib's name
    "1.2.840.113549.2.5": "md5",
    "1.3.14.3.2.26": "sha1",
    "2.16.840.1.101.3.4.2.4": "sha224",
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
    "2.16.840.1.101.3.4.2.8": "sha3_256",
    "2.16.840.1.101.3.4.2.9": "sha3_384",
    "2.16.840.1.101.3.4.2.10": "sha3_512",
}
_ALGORITHMS = {
    "1.2.840.113549.1.1.1": "rsa",
    "1.2.840.113549.1.1.5": "rsa",
    "1.2.840.113549.1.1.11": "rsa",
    "1.2.840.113549.1.1.12": "rsa",
    "1.2.840.113549.1.1.13": "rsa",
    "1.2.840.113549.1.1.14": "rsa",
    "1.2.840.10045.4.1": "ecdsa",
    "1.2.840.10045.4.3.1": "ecdsa",
    "1.2.840.10045.4.3.2": "ecdsa",
    "1.2.840.10045.4.3.3": "ecdsa",
    "1.2.840.10045.4.3.4": "ecdsa",
}


class TrailerFault(enum.StrEnum):
    """What is wrong with a trailer, by the kernel's error."""

    NONE = ""
    BAD_LENGTH = "bad-length"  # EBADMSG: longer than the file, or no room for the trailer itself
    BAD_ID_TYPE = "bad-id-type"  # ENOPKG: not PKCS#7; fatal only where signatures are enforced
    BAD_RESERVED = "bad-reserved"  # EBADMSG: fields that must be zero are not


class Trailer(Struct, frozen=True):
    """The end of a file with the marker of a signature."""

    fault: TrailerFault
    pkcs7: bytes  # empty if there is a fault


class Signature(Struct, frozen=True):
    """A signature and its signer, identified by issuer and serial number or by a key id."""

    issuer: str  # common name; empty if identified by key id
    issuer_der: bytes
    serial: str  # lower-case hex; empty if identified by key id
    subject_key_id: str | None  # lower-case hex; None if identified by issuer
    digest: str  # hashlib's name, or the object identifier if it is not in _DIGESTS
    algorithm: str  # "rsa", "ecdsa", or the object identifier
    signature: bytes
    has_attributes: bool  # signed attributes; the kernel refuses them on modules


def split(data: Buffer) -> tuple[int, Trailer | None]:
    """The length of a module's signed content, and the trailer after it; None if unsigned.

    If the trailer is invalid, only the marker is removed from the content, as in the kernel.
    Source: kernel/module/signing.c, module_sig_check() and mod_verify_sig(); mod_check_sig().
    """
    size = len(data)
    if size <= len(MARKER) or data[size - len(MARKER) : size] != MARKER:
        return size, None
    size -= len(MARKER)
    if size <= _TRAILER.size:
        return size, Trailer(TrailerFault.BAD_LENGTH, b"")
    start = size - _TRAILER.size
    trailer = bytes(data[start:size])
    algo, digest, id_type, signer_size, key_id_size, signature_size = _TRAILER.unpack(trailer)
    if signature_size >= start:
        return size, Trailer(TrailerFault.BAD_LENGTH, b"")
    if id_type != _PKEY_ID_PKCS7:
        return size, Trailer(TrailerFault.BAD_ID_TYPE, b"")
    if algo or digest or signer_size or key_id_size or any(trailer[5:8]):
        return size, Trailer(TrailerFault.BAD_RESERVED, b"")
    content = start - signature_size
    return content, Trailer(TrailerFault.NONE, bytes(data[content:start]))


def parse(pkcs7: bytes) -> Signature:
    """The first signer of a PKCS#7 message. Raises FormatError.

    Source: RFC 5652, sections 5.1 and 5.3.
    """
    reader = der.DerReader(der.parse(bytes(pkcs7)).expect(der.SEQUENCE, "the PKCS#7 message"))
    if der.object_id(reader.take(der.OBJECT, "the content type")) != _SIGNED_DATA:
        raise FormatError("the PKCS#7 message is not signed data")
    wrapped = der.DerReader(reader.take(0xA0, "the signed data"))
    signed = der.DerReader(wrapped.take(der.SEQUENCE, "the signed data"))
    signed.take(der.INTEGER, "the version")
    signed.take(der.SET, "the digest algorithms")
    content = der.DerReader(signed.take(der.SEQUENCE, "the content"))
    if der.object_id(content.take(der.OBJECT, "the type of the content")) != _DATA:
        raise FormatError("the PKCS#7 message does not sign plain data")
    signed.optional(0xA0), signed.optional(0xA1)  # certificates, revocation lists
    return _signer(der.DerReader(signed.take(der.SET, "the signers")).take(der.SEQUENCE, "the signer"))


def _signer(value: der.DerValue) -> Signature:
    reader = der.DerReader(value)
    reader.take(der.INTEGER, "the signer's version")
    issuer, issuer_der, serial = "", b"", ""
    key_id = reader.optional(0x80)
    if key_id is None:
        names = der.DerReader(reader.take(der.SEQUENCE, "the signer's name"))
        issuer_value = names.take(der.SEQUENCE, "the issuer")
        issuer, issuer_der = x509.name_of(issuer_value), issuer_value.encoded
        serial = der.integer_hex(names.take(der.INTEGER, "the serial number"))
    digest = _algorithm(reader.take(der.SEQUENCE, "the digest algorithm"))
    attributes = reader.optional(0xA0)
    algorithm = _algorithm(reader.take(der.SEQUENCE, "the signature algorithm"))
    return Signature(
        issuer=issuer,
        issuer_der=issuer_der,
        serial=serial,
        subject_key_id=None if key_id is None else key_id.content.hex(),
        digest=_DIGESTS.get(digest, digest),
        algorithm=_ALGORITHMS.get(algorithm, algorithm),
        signature=reader.take(der.OCTET_STRING, "the signature").content,
        has_attributes=attributes is not None,
    )


def _algorithm(value: der.DerValue) -> str:
    return der.object_id(der.DerReader(value).take(der.OBJECT, "an algorithm"))


def names(signature: Signature, certificate: x509.Certificate) -> bool:
    """Whether a signature names this certificate's key as its own. Nothing is computed.

    Source: crypto/asymmetric_keys/pkcs7_verify.c, pkcs7_find_key(); x509_public_key.c.
    """
    if signature.subject_key_id is not None:
        return signature.subject_key_id == certificate.subject_key_id
    return (signature.serial, signature.issuer_der) == (certificate.serial, certificate.issuer_der)


def verify(
    signature: Signature, content_digest_by_name: Callable[[str], bytes], certificate: x509.Certificate
) -> bool:
    """Whether the kernel would accept this signature if this certificate is among its trusted keys.

    `content_digest_by_name` returns the digest of the signed content by hashlib's name. Raises FormatError
    if this code does not support the digest, algorithm or key; that does not mean that the kernel refuses
    it.
    """
    if not names(signature, certificate):
        return False
    if signature.digest not in _DIGESTS.values() or signature.algorithm not in ("rsa", "ecdsa"):
        raise FormatError(f"unsupported signature: {signature.algorithm} over {signature.digest}")
    if signature.has_attributes:
        return False  # pkcs7_verify(), case VERIFYING_MODULE_SIGNATURE
    return _is_valid(signature, content_digest_by_name(signature.digest), certificate.public_key_der)


def _is_valid(signature: Signature, content_digest: bytes, public_key_der: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    algorithm: hashes.HashAlgorithm = getattr(hashes, signature.digest.upper())()
    if len(content_digest) != algorithm.digest_size:
        raise FormatError(f"the content's digest is not a {signature.digest} digest")
    try:
        key = load_der_public_key(public_key_der)
        if isinstance(key, rsa.RSAPublicKey) and signature.algorithm == "rsa":
            key.verify(signature.signature, content_digest, padding.PKCS1v15(), Prehashed(algorithm))
        elif isinstance(key, ec.EllipticCurvePublicKey) and signature.algorithm == "ecdsa":
            key.verify(signature.signature, content_digest, ec.ECDSA(Prehashed(algorithm)))
        else:
            return False
    except InvalidSignature:
        return False
    except (ValueError, UnsupportedAlgorithm) as error:
        raise FormatError("unsupported key in the certificate") from error
    return True
