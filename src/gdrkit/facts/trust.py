"""Who signed a module, and whether the running kernel accepts the signature."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import config_option, is_running, release, require_running, version
from gdrkit.facts.keyrings import BUILTIN, collected_certificates, enrolled_keys, proc_keys, revoked
from gdrkit.facts.loaded_modules import loaded
from gdrkit.facts.module_files import content, stored
from gdrkit.facts.module_index import all_paths, module_path, modules_dir, name_of
from gdrkit.facts.newest_read import cite_if_newer
from gdrkit.facts.reference_modules import reference_files
from gdrkit.facts.secure_boot import (
    module_signatures_supported,
    secure_boot,
    setup_mode,
    shim_validation_disabled,
    signatures_enforced,
)
from gdrkit.formats.errors import FormatError
from gdrkit.node import Node, each_known, fact, if_absent, if_missing

if TYPE_CHECKING:
    from gdrkit.formats.module_signature import Signature

__all__ = [
    "SignatureCheck",
    "SignatureState",
    "TrustedKey",
    "module_signatures_supported",
    "revoked",
    "secure_boot",
    "setup_mode",
    "shim_validation_disabled",
    "signature",
    "signature_check",
    "signature_fault",
    "signatures_enforced",
    "signer_name",
    "verified_by",
]  # fmt: skip


class SignatureState(enum.StrEnum):
    """The kernel's result for a module's signature."""

    UNSIGNED = "unsigned"
    VERIFIED = "verified"
    UNKNOWN_KEY = "unknown-key"
    UNSUPPORTED = "unsupported"  # of a type unknown to the kernel, which treats it like an unknown key
    BROKEN = "broken"  # a trusted key, but it did not sign this content
    ATTRIBUTES = "attributes"  # signed attributes, which the kernel treats as broken
    REVOKED = "revoked"
    MALFORMED = "malformed"  # the signature cannot be parsed


class SignatureCheck(Struct, frozen=True):
    """A signature's state, and the key that made it."""

    state: SignatureState
    key: str = ""


class TrustedKey(Struct, frozen=True):
    """A key that the kernel trusts for modules."""

    description: str
    keyring: str
    key_id: str = ""  # subject key id in hex, if known
    serial: str = ""
    issuer_der: bytes = b""


_DIGEST_ARCS = (bytes.fromhex("6086480165030402"), bytes.fromhex("2a864886f70d0205"))
"""NIST's hash algorithms, 2.16.840.1.101.3.4.2, and RSA's MD5, 1.2.840.113549.2.5, encoded in DER."""
_MD5_IS_GONE = (6, 7)  # observed in the lab: 6.1 knows it, 6.8 and 6.12 do not
_PADDING_IS_SEPARATE = 6, 13  # crypto/rsassa-pkcs1.c replaced the template pkcs1pad(rsa,...)
_SHA3_IS_KNOWN = 6, 7  # Linux crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_sig_note_digest_algo()


# -- the signature in a file ---------------------------------------------------------------------------


@fact
def _split(node: Node, path: str) -> tuple[int, str, bytes | None]:
    """Length of the signed content, the trailer's error, and the PKCS#7 message; None without a trailer."""
    from gdrkit.formats.module_signature import split

    length, trailer = split(content(node, path))
    node.cite(path, "signature", "none" if trailer is None else "")
    return (length, "", None) if trailer is None else (length, str(trailer.fault), trailer.pkcs7)


@fact
def signature(node: Node, path: str) -> Signature | None:
    """The signature of a module file; None if it is unsigned. Raises EvidenceMissing if the signature cannot
    be parsed."""
    from gdrkit.formats.module_signature import parse

    _, fault, pkcs7 = _split(node, path)
    if pkcs7 is None:
        return None
    if fault:
        raise FormatError(f"invalid trailer of the signature: {fault}")
    return parse(pkcs7)


@fact
def digest_places(node: Node, path: str) -> tuple[int, ...]:
    """Offsets of the digest's name in the PKCS#7 message; a kernel that does not know the digest prints
    them."""
    _, _, pkcs7 = _split(node, path)
    if pkcs7 is None:
        return ()
    return tuple(sorted(offset for digest in _DIGEST_ARCS for offset in _offsets(pkcs7, digest)))


def _offsets(content: bytes, part: bytes) -> Iterator[int]:
    offset = content.find(part)
    while offset >= 0:
        yield offset
        offset = content.find(part, offset + len(part))


@fact
def signature_fault(node: Node, path: str) -> str:
    """The error in the trailer that marks a signature; "" if it is valid or there is none."""
    return _split(node, path)[1]


@fact
def signer_name(node: Node, path: str) -> str:
    """The signer as modinfo prints it: the issuer's name or a key id; "" if unsigned."""
    found = signature(node, path)
    return "" if found is None else found.issuer or found.subject_key_id or ""


@fact
def content_digest(node: Node, path: str, digest: str) -> bytes:
    """The digest of a module's signed content; `digest` is hashlib's name."""
    found = stored(node).get(path)
    recorded = found.digests if found is not None else {}
    if recorded:
        if digest not in recorded:
            raise EvidenceMissing(
                Missing(
                    f"{path} ({digest})",
                    MissingReason.NOT_COLLECTED,
                    f"modinfo -F sig_hashalgo {quoted(f'/{path}')}",
                )
            )
        return bytes.fromhex(recorded[digest])
    import hashlib

    return hashlib.new(digest, memoryview(content(node, path))[: _split(node, path)[0]]).digest()


# -- the kernel's trust --------------------------------------------------------------------------------


@fact
def signature_check(node: Node, path: str) -> SignatureCheck:
    """The result of the kernel's signature check.

    Order as in Linux kernel/module/signing.c, mod_verify_sig(); certs/system_keyring.c,
    verify_pkcs7_message_sig(): form, revocation, trust.
    """
    from gdrkit.formats.module_signature import TrailerFault

    fault = signature_fault(node, path)
    if fault:
        return SignatureCheck(
            SignatureState.UNSUPPORTED if fault == TrailerFault.BAD_ID_TYPE else SignatureState.MALFORMED
        )
    try:
        found = signature(node, path)
    except EvidenceMissing as error:
        if error.missing.why is not MissingReason.GARBLED:
            raise
        return SignatureCheck(SignatureState.MALFORMED)
    if found is None:
        return SignatureCheck(SignatureState.UNSIGNED)
    if found.has_attributes:
        return SignatureCheck(SignatureState.ATTRIBUTES)
    if found.digest == "md5" or found.digest.startswith("sha3_"):
        cite_if_newer(node, "Linux", release(node))
    if _is_foreign(found.digest, version(node)):
        return SignatureCheck(SignatureState.UNSUPPORTED, found.issuer)
    return (
        _by_revocation(node, path, found)
        or _by_certificate(node, path, found)
        or _by_identity(node, path, found)
        or _by_name(node, path, found)
    )


def _is_foreign(digest: str, kernel: tuple[int, ...]) -> bool:
    """Whether a kernel of this version does not know a digest. Source:
    crypto/asymmetric_keys/pkcs7_parser.c, pkcs7_sig_note_digest_algo()."""
    if digest == "md5":
        return kernel >= _MD5_IS_GONE
    return digest.startswith("sha3_") and kernel < _SHA3_IS_KNOWN


@fact
def untested_digest(node: Node, path: str) -> str:
    """The digest of a signature if the kernel's crypto code has no self-test for it; "" if it has one.

    The kernel prints a message at the first such check in a boot, which needs a key that it has. Source:
    Linux crypto/testmgr.c, alg_test_descs: pkcs1pad(rsa,...) is listed only with SHA-2 and SHA-3.
    """
    found = signature_check(node, path)
    if found.state not in (SignatureState.VERIFIED, SignatureState.BROKEN, SignatureState.REVOKED):
        return ""
    signed = signature(node, path)
    if signed is None or signed.algorithm != "rsa" or signed.digest not in ("md5", "sha1"):
        return ""
    if version(node) >= _PADDING_IS_SEPARATE:
        return ""
    return "" if config_option(node, "CONFIG_CRYPTO_MANAGER_DISABLE_TESTS") == "y" else signed.digest


def _by_revocation(node: Node, path: str, found: Signature) -> SignatureCheck | None:
    from gdrkit.formats.module_signature import names, verify

    for certificate in revoked(node):
        if names(found, certificate) and verify(
            found, lambda digest: content_digest(node, path, digest), certificate
        ):
            return SignatureCheck(SignatureState.REVOKED, certificate.kernel_name)
    return None


def _by_certificate(node: Node, path: str, found: Signature) -> SignatureCheck | None:
    """By the certificate that the signature names, if the kernel trusts it."""
    from gdrkit.formats.module_signature import names, verify

    for key in enrolled_keys(node):
        if names(found, key.certificate):
            valid = verify(found, lambda digest: content_digest(node, path, digest), key.certificate)
            node.cite(path, "signature", f"{'made' if valid else 'not made'} by {key.description}")
            return SignatureCheck(
                SignatureState.VERIFIED if valid else SignatureState.BROKEN, key.description
            )
    return None


def _by_identity(node: Node, path: str, found: Signature) -> SignatureCheck | None:
    """By the signers of modules that this kernel has verified, since no file has its built-in
    certificates."""
    for key in chain(_signers_of_the_build(node), _signers_of_loaded(node)):
        if _same_signer(key, found):
            if twin := _altered_copy_of(node, path):
                node.cite(twin, "signature", "the same, of another content", confidence=Confidence.LIKELY)
                return SignatureCheck(SignatureState.BROKEN, key.description)
            if _is_altered(node, path, found):
                return SignatureCheck(SignatureState.BROKEN, key.description)
            node.cite("signers of loaded modules", text=key.description, confidence=Confidence.LIKELY)
            return SignatureCheck(SignatureState.VERIFIED, key.description)
    return None


def _is_altered(node: Node, path: str, found: Signature) -> bool:
    """Whether the content differs from what was signed, by a certificate that was collected: the kernel may
    have it where it is not known to look. False also without such a certificate."""
    from gdrkit.formats.module_signature import names, verify

    for certificate, _ in if_missing((), collected_certificates, node):
        if names(found, certificate):
            valid = verify(found, lambda digest: content_digest(node, path, digest), certificate)
            node.cite(path, "signature", f"{'made' if valid else 'not made'} by {found.issuer}")
            return not valid
    return False


def _altered_copy_of(node: Node, path: str) -> str:
    """The kernel's own file of the same name with the same signature but another content; "" if there is
    none: no signature fits two contents, and the kernel's own file is the likelier original."""
    own, pkcs7 = f"{modules_dir(node)}/kernel/", _split(node, path)[2]
    if path.startswith(own):
        return ""

    def is_original(other: str) -> bool:
        if not other.startswith(own) or _split(node, other)[2] != pkcs7:
            return False
        return content_digest(node, other, "sha256") != content_digest(node, path, "sha256")

    others = if_missing((), all_paths, node, name_of(path))
    return next((other for other in others if if_missing(False, is_original, other)), "")


def _same_signer(key: TrustedKey, found: Signature) -> bool:
    if found.subject_key_id is not None:
        return found.subject_key_id == key.key_id
    return (found.issuer_der, found.serial) == (key.issuer_der, key.serial)


def _by_name(node: Node, path: str, found: Signature) -> SignatureCheck:
    """By the names and key ids in /proc/keys, for a signer whose certificate is not known."""
    build = _signers_of_the_build(node)
    try:
        held = proc_keys(node)
    except EvidenceMissing:
        if not build:
            raise
        node.cite("proc/keys", text="not readable", confidence=Confidence.LIKELY)
        return SignatureCheck(SignatureState.UNKNOWN_KEY, found.issuer or found.subject_key_id or "")
    if found.subject_key_id is not None:
        known = found.subject_key_id in held.names
        if not known:
            require_running(node, f"key {found.subject_key_id}, if one is built into it,")
        name = held.names.get(found.subject_key_id, "")
        if known and _is_altered(node, path, found):
            return SignatureCheck(SignatureState.BROKEN, name)
        return SignatureCheck(SignatureState.VERIFIED if known else SignatureState.UNKNOWN_KEY, name)
    if not held.has_name(found.issuer):
        require_running(node, f"key of {found.issuer}, if one is built into it,")
        return SignatureCheck(SignatureState.UNKNOWN_KEY, found.issuer)
    # A key of this name exists. Builds use one name for many keys; the serial number of the kernel's own
    # modules distinguishes its key from those of other builds.
    node.cite("proc/keys", text=found.issuer, confidence=Confidence.LIKELY)
    if _is_altered(node, path, found):
        return SignatureCheck(SignatureState.BROKEN, found.issuer)
    other_build = any(key.description == found.issuer for key in build)
    return SignatureCheck(
        SignatureState.UNKNOWN_KEY if other_build else SignatureState.VERIFIED, found.issuer
    )


@fact
def _signers_of_the_build(node: Node) -> tuple[TrustedKey, ...]:
    """The key that signed the kernel's own modules, from the first of them that can be read."""
    for found in each_known(lambda path: signature(node, path), reference_files(node)):
        if found is not None:
            return (_key(found, BUILTIN),)
    return ()


def _signers_of_loaded(node: Node) -> Iterator[TrustedKey]:
    """Signers of loaded out-of-tree modules that the kernel has verified: those without the taint E.

    Yielded one by one, because decompressing a driver to reach the signature at its end takes long."""
    running = if_absent((), lambda: tuple(loaded(node).values()) if is_running(node) else ())
    names = (m.name for m in running if "O" in m.taint and not set("EF") & set(m.taint))
    for found in each_known(lambda name: signature(node, module_path(node, name)), names):
        if found is not None:
            yield _key(found, "")


def _key(found: Signature, keyring: str) -> TrustedKey:
    name = found.issuer or found.subject_key_id or ""
    return TrustedKey(name, keyring, found.subject_key_id or "", found.serial, found.issuer_der)


@fact
def verified_by(node: Node, path: str) -> str:
    """The name of the trusted key that made a module's signature; "" if none did."""
    found = signature_check(node, path)
    return found.key if found.state is SignatureState.VERIFIED else ""
