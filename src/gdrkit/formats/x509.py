"""X.509 certificates: the parts that are needed to find a module's signer and verify its signature.

Source: RFC 5280, section 4.1; Linux crypto/asymmetric_keys/x509_cert_parser.c for names.
Why not a library: `cryptography` takes 53 ms to import, asn1crypto 32 ms (formats/der.py).
"""

from __future__ import annotations

from msgspec import Struct

from gdrkit.formats import der

_COMMON_NAME, _ORGANIZATION, _EMAIL = "2.5.4.3", "2.5.4.10", "1.2.840.113549.1.9.1"
_SUBJECT_KEY_ID = "2.5.29.14"
_TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1C: "utf-32-be", 0x1E: "utf-16-be"}


class Certificate(Struct, frozen=True):
    """A certificate. Ids are lower-case hex."""

    der: bytes
    subject: str  # common name, else organization
    issuer: str
    issuer_der: bytes
    serial: str
    subject_key_id: str | None
    public_key_der: bytes  # SubjectPublicKeyInfo
    kernel_name: str  # as in /proc/keys, before the colon

    @property
    def key_id(self) -> str:
        """The id after the colon in /proc/keys. Source: Linux x509_public_key.c, x509_key_preparse()."""
        return self.subject_key_id or self.serial


def parse(data: bytes) -> Certificate:
    """A certificate from its DER. Raises FormatError."""
    data = bytes(data)
    outer = der.DerReader(der.parse(data).expect(der.SEQUENCE, "the certificate"))
    signed = outer.take(der.SEQUENCE, "the certificate's content")
    reader = der.DerReader(signed)
    reader.optional(0xA0)  # version
    serial = reader.take(der.INTEGER, "the serial number")
    reader.take(der.SEQUENCE, "the signature algorithm")
    issuer = reader.take(der.SEQUENCE, "the issuer")
    reader.take(der.SEQUENCE, "the validity")
    subject = reader.take(der.SEQUENCE, "the subject")
    public_key = reader.take(der.SEQUENCE, "the public key")
    reader.optional(0x81), reader.optional(0x82)  # unique ids
    key_id = _subject_key_id(reader.optional(0xA3))
    return Certificate(
        der=data,
        subject=name_of(subject),
        issuer=name_of(issuer),
        issuer_der=issuer.encoded,
        serial=der.integer_hex(serial),
        subject_key_id=key_id,
        public_key_der=public_key.encoded,
        kernel_name=_kernel_name(_attributes(subject)),
    )


def name_of(name: der.DerValue) -> str:
    """The common name in a distinguished name, else the organization, else nothing."""
    attributes = _attributes(name)
    return attributes.get(_COMMON_NAME) or attributes.get(_ORGANIZATION) or ""


def _attributes(name: der.DerValue) -> dict[str, str]:
    """The last value of each attribute type; the kernel also keeps the last."""
    texts = {}
    for group in name:
        for pair in group.expect(der.SET, "a name's part"):
            reader = der.DerReader(pair.expect(der.SEQUENCE, "a name's attribute"))
            kind = der.object_id(reader.take(der.OBJECT, "an attribute's type"))
            for value in list(pair)[1:]:
                texts[kind] = value.content.decode(_TEXTS.get(value.tag, "latin-1"), "replace")
    return texts


def _kernel_name(attributes: dict[str, str]) -> str:
    """The kernel's name of a certificate. Source: x509_cert_parser.c, x509_fabricate_name()."""
    common, organization = attributes.get(_COMMON_NAME, ""), attributes.get(_ORGANIZATION, "")
    if common and organization:
        if common.startswith(organization) or (len(common) >= 7 and common[:7] == organization[:7]):
            return common
        return f"{organization}: {common}"
    return common or organization or attributes.get(_EMAIL, "")


def _subject_key_id(extensions: der.DerValue | None) -> str | None:
    """The subject key id, whose DER is inside of an octet string; None if there is none."""
    if extensions is None:
        return None
    for extension in der.DerReader(extensions).take(der.SEQUENCE, "the extensions"):
        reader = der.DerReader(extension.expect(der.SEQUENCE, "an extension"))
        kind = der.object_id(reader.take(der.OBJECT, "an extension's type"))
        reader.optional(der.BOOLEAN)
        content = reader.take(der.OCTET_STRING, "an extension's value").content
        if kind == _SUBJECT_KEY_ID:
            return der.parse(content).expect(der.OCTET_STRING, "the subject key id").content.hex()
    return None
