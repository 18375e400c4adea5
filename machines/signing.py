"""Keys, certificates and module signatures that are the same in every run.

A key's primes follow from its name, so a seed gives the same bytes everywhere. 1024 bits are enough:
these keys protect nothing. Formats: Linux scripts/sign-file.c, module_signature.h; RFC 5652."""

from __future__ import annotations

import functools
import hashlib
import math
import random
import struct
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

MAGIC = b"~Module signature appended~\n"
_SHA512 = bytes.fromhex("300d06096086480165030402030500")
_RSA = bytes.fromhex("300d06092a864886f70d0101010500")
_DATA = bytes.fromhex("300b06092a864886f70d010701")
_SIGNED_DATA = bytes.fromhex("06092a864886f70d010702")
_EXPONENT = 65537
_SMALL_PRIMES = math.prod(n for n in range(3, 10_000, 2) if all(n % d for d in range(3, int(n**0.5) + 1, 2)))
_BASES = (2, 3, 5, 7, 11)
"""Of Miller and Rabin's test: more than enough for a number of 512 bits that nobody chose."""


class Key:
    """A signing key and its self-signed certificate."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.private = _private_key(name)
        digest = hashlib.sha256(name.encode()).digest()
        self.serial = int.from_bytes(digest[:15], "big") | 1 << 112
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        identifier = x509.SubjectKeyIdentifier.from_public_key(self.private.public_key())
        self.key_id = identifier.digest.hex()
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(self.private.public_key())
            .serial_number(self.serial)
            .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
            .not_valid_after(datetime(2124, 1, 1, tzinfo=UTC))
            .add_extension(identifier, critical=False)
            .sign(self.private, hashes.SHA256())
        )
        self.der = self.certificate.public_bytes(serialization.Encoding.DER)
        self.issuer = subject.public_bytes()

    def signature(self, content: bytes) -> bytes:
        """A detached PKCS#7 signature without attributes, as sign-file makes it."""
        signed = self.private.sign(content, padding.PKCS1v15(), hashes.SHA512())
        signer = _der(
            0x30,
            _integer(1)
            + _der(0x30, self.issuer + _integer(self.serial))
            + _SHA512
            + _RSA
            + _der(0x04, signed),
        )
        body = _der(0x30, _integer(1) + _der(0x31, _SHA512) + _DATA + _der(0x31, signer))
        return _der(0x30, _SIGNED_DATA + _der(0xA0, body))


@functools.cache
def key(name: str) -> Key:
    """The key of this name."""
    return Key(name)


def sign(module: bytes, signer: str) -> bytes:
    """A module with this signer's signature appended."""
    signature = key(signer).signature(module)
    return module + signature + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, len(signature)) + MAGIC


def _private_key(name: str) -> rsa.RSAPrivateKey:
    source = random.Random("key of " + name)
    p, q = _prime(source), _prime(source)
    if p < q:
        p, q = q, p
    d = pow(_EXPONENT, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(_EXPONENT, p * q)
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)  # which takes as long as a prime


def _prime(source: random.Random, bits: int = 512) -> int:
    while True:
        candidate = source.getrandbits(bits) | 3 << (bits - 2) | 1
        if candidate % _EXPONENT == 1 or math.gcd(candidate, _SMALL_PRIMES) > 1:
            continue
        if all(_may_be_prime(candidate, base) for base in _BASES):
            return candidate


def _may_be_prime(candidate: int, base: int) -> bool:
    """One round of Miller and Rabin's test."""
    odd, twos = candidate - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    value = pow(base, odd, candidate)
    if value in (1, candidate - 1):
        return True
    for _ in range(twos - 1):
        value = value * value % candidate
        if value == candidate - 1:
            return True
    return False


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    width = (size.bit_length() + 7) // 8
    return bytes((tag, 0x80 | width)) + size.to_bytes(width, "big") + content


def _integer(value: int) -> bytes:
    return _der(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))
