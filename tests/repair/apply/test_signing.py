"""Modules are signed in the kernel's format, and keys and passwords stay secret."""

from __future__ import annotations

import datetime
import gzip
import hashlib
import lzma
import os
import subprocess
from pathlib import Path

import pytest
from cryptography import x509 as certificates
from cryptography.hazmat.primitives.asymmetric import rsa

from gdrkit.formats import module_signature, x509
from gdrkit.formats.compressed import compression, decompress
from gdrkit.repair.apply.errors import ApplyError
from gdrkit.repair.apply.passwords import Passwords, read_password
from gdrkit.repair.apply.signing import NeedsPassword, make_pair, pack, signed, signer, trailer, verify
from tests.module_builder import build_module, make_key, sign
from tests.system_programs import program

BODY = build_module("nvidia_peermem", imports={"nvidia_p2p_get_pages": 1})
PASSWORD = b"a password that is never printed"


@pytest.fixture(scope="module")
def pair():
    return make_pair(None)


@pytest.fixture(scope="module")
def who(pair):
    return signer(*pair, None)


@pytest.mark.parametrize("kind", ["", "xz", "zstd", "gzip"])
@pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
def test_a_signed_module_keeps_its_compression_and_has_a_valid_signature(who, pair, kind, digest):
    made = signed(pack(BODY, kind), who, digest)
    assert compression(made) == kind
    plain = bytes(decompress(made, 1 << 20))
    size, found = module_signature.split(plain)
    assert plain[:size] == BODY and found is not None and not found.fault
    made_by = module_signature.parse(found.pkcs7)
    assert (made_by.digest, made_by.algorithm, made_by.has_attributes) == (digest, "rsa", False)
    certificate = x509.parse(pair[1])
    assert module_signature.verify(made_by, lambda n: hashlib.new(n, BODY).digest(), certificate)
    assert not module_signature.verify(made_by, lambda n: hashlib.new(n, BODY + b"x").digest(), certificate)


def test_an_existing_signature_is_replaced(who):
    once = signed(BODY, who, "sha256")
    assert signed(sign(BODY, make_key("another signer")), who, "sha256") == once
    assert signed(once, who, "sha256") == once


def test_xz_output_has_the_parameters_that_the_kernel_supports(who):
    """No CRC64, and a dictionary of 1 MiB: Linux scripts/Makefile.modinst."""
    made = signed(pack(BODY, "xz"), who, "sha256")
    assert made[7] == lzma.CHECK_CRC32  # xz file format 2.1.1.2, Stream Flags
    plain = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=3 << 20).decompress(made)
    assert plain.endswith(module_signature.MARKER)


@pytest.mark.parametrize("content", [b"", b"no module", lzma.compress(BODY)[:-9], b"\x1f\x8b\x08 broken"])
def test_content_that_is_not_a_module_is_rejected(who, content):
    with pytest.raises(ApplyError):
        signed(content, who, "sha256")


def test_openssl_verifies_the_signature(who, pair, tmp_path):
    openssl = program("openssl")
    message = trailer(BODY, who, "sha256")
    (tmp_path / "sig").write_bytes(message[: -12 - len(module_signature.MARKER)])
    (tmp_path / "body").write_bytes(BODY)
    pem = certificates.load_der_x509_certificate(pair[1])
    from cryptography.hazmat.primitives.serialization import Encoding

    (tmp_path / "pem").write_bytes(pem.public_bytes(Encoding.PEM))
    run = subprocess.run(
        [openssl, "cms", "-verify", "-binary", "-inform", "DER", "-in", "sig", "-content", "body",
         "-certfile", "pem", "-noverify", "-out", "out"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr


def _sign_file() -> Path | None:
    found = Path.home().glob(".cache/gdrkit/lab/*/*/headers/usr/lib/linux-kbuild-*/scripts/sign-file")
    return next(iter(sorted(found)), None)


@pytest.mark.skipif(_sign_file() is None, reason="the kernel lab has no headers in its cache")
def test_the_kernels_sign_file_makes_the_same_signature(tmp_path):
    """Compares the parsed signature: OpenSSL omits the NULL after a digest's name, which is optional."""
    private, der = make_pair(None)
    (tmp_path / "key").write_bytes(private)
    (tmp_path / "der").write_bytes(der)
    (tmp_path / "x.ko").write_bytes(BODY)
    subprocess.run([str(_sign_file()), "sha512", "key", "der", "x.ko"], cwd=tmp_path, check=True)
    theirs, ours = (tmp_path / "x.ko").read_bytes(), signed(BODY, signer(private, der, None), "sha512")
    parsed = []
    for content in (theirs, ours):
        _, found = module_signature.split(content)
        assert found is not None
        parsed.append(module_signature.parse(found.pkcs7))
    assert parsed[0] == parsed[1]
    assert theirs[-len(module_signature.MARKER) - 12 : -len(module_signature.MARKER) - 4] == bytes(
        [0, 0, 2, 0, 0, 0, 0, 0]
    )


def test_a_created_key_is_restricted_to_modules(pair):
    found = certificates.load_der_x509_certificate(pair[1])
    usages = found.extensions.get_extension_for_class(certificates.ExtendedKeyUsage).value
    assert {usage.dotted_string for usage in usages} == {"1.3.6.1.5.5.7.3.3", "1.3.6.1.4.1.2312.16.1.2"}
    assert found.extensions.get_extension_for_class(certificates.BasicConstraints).value.ca is False
    assert x509.parse(pair[1]).subject_key_id


def test_a_protected_key_opens_only_with_its_password():
    private, certificate = make_pair(PASSWORD)
    assert b"ENCRYPTED" in private
    assert signer(private, certificate, PASSWORD)
    for wrong in (None, b"another"):
        with pytest.raises(NeedsPassword) as caught:
            signer(private, certificate, wrong)
        assert "password" in str(caught.value) and "another" not in str(caught.value)


def test_a_certificate_of_another_key_is_rejected(pair):
    with pytest.raises(ApplyError, match="does not belong to this key"):
        signer(pair[0], make_pair(None)[1], None)


@pytest.mark.parametrize("certificate", [b"", b"no certificate", b"-----BEGIN CERTIFICATE-----"])
def test_what_is_no_certificate_is_rejected(pair, certificate):
    with pytest.raises(ApplyError, match=r"^not a valid certificate$"):
        signer(pair[0], certificate, None)


def test_a_kind_of_key_that_the_kernel_does_not_know_is_rejected(pair):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(ApplyError, match=r"^unsupported key type: the kernel supports RSA and elliptic"):
        signer(key, pair[1], None)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda made: BODY, "is not as written"),
        (lambda made: b"x" + made, "is not as written"),
        (lambda made: made.replace(module_signature.MARKER, b"~Module signature missing~~\n"), "is not as"),
        (lambda made: made[:-50] + b"\0" * 10 + made[-40:], "does not match the module"),
    ],
    ids=["unsigned", "other content", "no marker", "other signature"],
)
def test_a_module_that_was_not_written_as_signed_is_noticed(who, change, why):
    made = signed(BODY, who, "sha256")
    verify(made, who, BODY)
    with pytest.raises(ApplyError, match=f"^verification failed: the signature {why}"):
        verify(change(made), who, BODY)


def test_a_module_that_is_packed_wrongly_is_not_returned(who, monkeypatch):
    compress = gzip.compress
    monkeypatch.setattr(gzip, "compress", lambda content, mtime: compress(content[:-1] + b"~", mtime=mtime))
    with pytest.raises(ApplyError, match=r"^verification failed: the signature is not as written"):
        signed(compress(BODY), who, "sha256")


def test_the_certificate_is_valid_since_yesterday_and_for_thirty_years(pair):
    """Clocks of fresh machines are behind; the kernel ignores the dates, firmware may not."""
    found = certificates.load_der_x509_certificate(pair[1])
    days = (found.not_valid_after_utc - found.not_valid_before_utc).days
    assert days == 1 + 365 * 30
    assert datetime.datetime.now(datetime.UTC) - found.not_valid_before_utc >= datetime.timedelta(days=1)
    usage = found.extensions.get_extension_for_class(certificates.KeyUsage)
    assert usage.critical and usage.value.digital_signature
    assert not any((usage.value.content_commitment, usage.value.key_cert_sign, usage.value.crl_sign))
    basic = found.extensions.get_extension_for_class(certificates.BasicConstraints)
    key = found.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert basic.critical and (key.key_size, key.public_numbers().e) == (2048, 65537)


def test_a_password_for_an_unprotected_key_is_an_error(pair):
    with pytest.raises(NeedsPassword, match="not protected"):
        signer(*pair, PASSWORD)


def test_repr_shows_no_secret(who):
    passwords = Passwords(PASSWORD, PASSWORD)
    assert PASSWORD.decode() not in repr(passwords) + str(passwords)
    assert "RSA" not in repr(who)


def test_a_password_is_read_from_a_descriptor():
    read, write = os.pipe()
    os.write(write, PASSWORD + b"\nmore\n")
    os.close(write)
    assert read_password(read) == PASSWORD
    os.close(read)
    with pytest.raises(ApplyError):
        read_password(read)
