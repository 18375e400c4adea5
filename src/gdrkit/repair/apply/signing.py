"""Signs kernel modules in the kernel's format, and creates signing keys.

Format: scripts/sign-file.c of Linux: the content, then PKCS#7 SignedData (detached, without certificates and
signed attributes), then struct module_signature, then the marker. Each result is verified with the code that
`gdr doctor` uses.
"""

from __future__ import annotations

import datetime
import struct
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.formats import compressed, module_signature, x509
from gdrkit.formats.errors import FormatError
from gdrkit.repair.apply.errors import ApplyError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.x509 import Certificate, KeyUsage

_KEY_BITS = 2048
"""Shim and the firmware of old machines accept this size; Ubuntu's and DKMS's keys have it too."""
_YEARS = 30  # the kernel ignores a certificate's dates: crypto/asymmetric_keys/x509_public_key.c
_MODULE_SIGNING = "1.3.6.1.4.1.2312.16.1.2"
"""An extended key usage that shim accepts only for modules, so the key cannot start a boot loader: shim,
Cryptlib/OpenSSL, and Ubuntu's update-secureboot-policy."""
_XZ_DICTIONARY_BYTES = 1 << 20
"""The kernel's own build uses this size, and its decoder has memory for it: `xz --check=crc32
--lzma2=dict=1MiB` in Linux scripts/Makefile.modinst."""


class Signer(Struct, frozen=True):
    """A private key and its certificate. `repr` does not show the key."""

    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    certificate: Certificate

    def __repr__(self) -> str:
        return f"<signer {self.certificate.serial_number:x}>"


class NeedsPassword(ApplyError):
    """The key's password is missing, wrong, or was given for an unprotected key."""


def make_pair(password: bytes | None) -> tuple[bytes, bytes]:
    """A new private key as PEM, encrypted if there is a password, and its certificate as DER."""
    from cryptography import x509 as certificates
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = certificates.Name([certificates.NameAttribute(NameOID.COMMON_NAME, "gdrkit module signing key")])
    now = datetime.datetime.now(datetime.UTC)
    usage = [ExtendedKeyUsageOID.CODE_SIGNING, certificates.ObjectIdentifier(_MODULE_SIGNING)]
    identifier = certificates.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        certificates.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(certificates.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks of fresh machines are behind
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(certificates.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_digital_signature(), critical=True)
        .add_extension(certificates.ExtendedKeyUsage(usage), critical=False)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        protection = serialization.BestAvailableEncryption(password)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
    return private, certificate.public_bytes(serialization.Encoding.DER)


def _digital_signature() -> KeyUsage:
    from cryptography.x509 import KeyUsage

    return KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def signer(key: bytes, certificate: bytes, password: bytes | None) -> Signer:
    """A signer from the contents of its files, PEM or DER. Raises ApplyError without quoting either."""
    from cryptography import x509 as certificates
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    load = serialization.load_pem_private_key if b"-----BEGIN" in key else serialization.load_der_private_key
    try:
        private = load(key, password or None)
    except TypeError:
        why = "the key is not protected, but a password was given"
        raise NeedsPassword(why if password else "the key is protected by a password") from None
    except ValueError:
        why = "wrong password, or not a private key" if password else "not a private key"
        raise NeedsPassword(why) from None
    if not isinstance(private, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        raise ApplyError("unsupported key type: the kernel supports RSA and elliptic curve keys")
    try:
        found = (
            certificates.load_pem_x509_certificate(certificate)
            if b"-----BEGIN" in certificate
            else certificates.load_der_x509_certificate(certificate)
        )
    except ValueError:
        raise ApplyError("not a valid certificate") from None
    pair = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    if private.public_key().public_bytes(*pair) != found.public_key().public_bytes(*pair):
        raise ApplyError("the certificate does not belong to this key")
    return Signer(private, found)


def signed(content: bytes, module_signer: Signer, digest: str) -> bytes:
    """A module with its signature replaced by this signer's, compressed as before, and verified.

    Raises ApplyError if the content is not a module, or cannot be unpacked.
    """
    kind = compressed.compression(content)
    try:
        plain = bytes(compressed.decompress(content, compressed.MODULE_LIMIT_BYTES))
    except FormatError as error:
        raise ApplyError(f"cannot be unpacked: {error}") from None
    if plain[:4] != b"\x7fELF":
        raise ApplyError("not a kernel module: no ELF header")
    body = plain[: module_signature.split(plain)[0]]
    packed = pack(body + trailer(body, module_signer, digest), kind)
    verify(packed, module_signer, body)
    return packed


def trailer(body: bytes, module_signer: Signer, digest: str) -> bytes:
    """What is appended to a module: PKCS#7, struct module_signature, the marker."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

    known = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
    algorithm: hashes.SHA256 | hashes.SHA384 | hashes.SHA512 = known[digest]  # type: ignore[assignment]
    form = pkcs7.PKCS7Options
    message = (
        pkcs7.PKCS7SignatureBuilder()
        .set_data(body)
        .add_signer(module_signer.certificate, module_signer.key, algorithm)
        .sign(Encoding.DER, [form.DetachedSignature, form.Binary, form.NoAttributes, form.NoCerts])
    )
    head = struct.pack(">5B3xI", 0, 0, 2, 0, 0, len(message))  # id_type 2 is PKEY_ID_PKCS7
    return message + head + module_signature.MARKER


def pack(content: bytes, kind: str) -> bytes:
    """Content compressed as modprobe and the kernel expect it: "xz", "zstd", "gzip", or "" for none."""
    if kind == "xz":
        import lzma

        filters = [{"id": lzma.FILTER_LZMA2, "dict_size": _XZ_DICTIONARY_BYTES}]
        return lzma.compress(content, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=filters)
    if kind == "gzip":
        import gzip

        return gzip.compress(content, mtime=0)
    if kind == "zstd":
        packed: bytes = compressed.zstd().compress(content)
        return packed
    return content


def verify(packed: bytes, module_signer: Signer, body: bytes) -> None:
    """Check that a packed module holds this content and this signer's signature. Raises ApplyError if not.

    Uses doctor's code: formats/module_signature.py.
    """
    import hashlib

    from cryptography.hazmat.primitives.serialization import Encoding

    plain = bytes(compressed.decompress(packed, compressed.MODULE_LIMIT_BYTES))
    size, found = module_signature.split(plain)
    if found is None or found.fault or plain[:size] != body:
        raise ApplyError("verification failed: the signature is not as written")
    certificate = x509.parse(module_signer.certificate.public_bytes(Encoding.DER))
    made = module_signature.parse(found.pkcs7)
    if not module_signature.verify(made, lambda name: hashlib.new(name, plain[:size]).digest(), certificate):
        raise ApplyError("verification failed: the signature does not match the module")
