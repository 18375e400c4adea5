"""Lists of trusted and revoked keys in EFI variables."""

from __future__ import annotations

import hashlib
import struct
import subprocess
import uuid

import cryptography.x509
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import efi_list, x509
from gdrkit.formats.errors import FormatError
from tests.debian_kernels import unpacked
from tests.module_builder import make_key

X509, SHA256 = (
    uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072"),
    uuid.UUID("c1c41626-504c-4092-aca9-41f936934328"),
)
OWNER = uuid.UUID("605dab50-e046-4300-abb6-3dd810dd8b23")  # shim's, under which it keeps MokList
ATTRIBUTES = struct.pack("<I", 6)  # boot service and runtime access: what MokListRT has


def list_of(kind, *entries, header=b"", owner=OWNER):
    """One EFI_SIGNATURE_LIST as in the specification's table; all entries have the same size."""
    size = 16 + len(entries[0]) if entries else 16 + 32
    body = header + b"".join(owner.bytes_le + entry for entry in entries)
    return kind.bytes_le + struct.pack("<III", 28 + len(body), len(header), size) + body


CERTIFICATE = make_key("gdrkit test module key").certificate_der
HASHES = hashlib.sha256(b"a").digest(), hashlib.sha256(b"b").digest()


def test_lists_follow_one_another_and_entries_keep_kind_and_owner():
    data = list_of(X509, CERTIFICATE) + list_of(SHA256, *HASHES)

    entries = efi_list.parse(data, attributes=False)

    assert entries == (
        efi_list.EfiSignature("x509", str(OWNER), CERTIFICATE),
        efi_list.EfiSignature("sha256", str(OWNER), HASHES[0]),
        efi_list.EfiSignature("sha256", str(OWNER), HASHES[1]),
    )
    assert x509.parse(entries[0].data).subject == "gdrkit test module key"


def test_files_of_efivarfs_begin_with_attributes():
    data = ATTRIBUTES + list_of(SHA256, HASHES[0])

    assert [entry.data for entry in efi_list.parse(data, attributes=True)] == [HASHES[0]]
    with pytest.raises(FormatError):
        efi_list.parse(data, attributes=False)


def test_an_empty_variable_has_no_entries_but_an_empty_file_is_not_a_variable():
    assert efi_list.parse(ATTRIBUTES, attributes=True) == ()
    assert efi_list.parse(list_of(SHA256), attributes=False) == ()
    with pytest.raises(FormatError, match="shorter than its attributes"):
        efi_list.parse(b"", attributes=True)


def test_a_list_can_have_a_header():
    data = list_of(SHA256, HASHES[0], header=b"vendor's")

    assert [entry.data for entry in efi_list.parse(data, attributes=False)] == [HASHES[0]]


def test_a_kind_without_a_name_is_shown_by_its_guid():
    kind = uuid.UUID("12345678-9abc-def0-1122-334455667788")

    assert efi_list.parse(list_of(kind, b"x"), attributes=False)[0].kind == str(kind)


def with_sizes(list_size, header_size, size):
    return SHA256.bytes_le + struct.pack("<III", list_size, header_size, size) + bytes(48)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"EFI variables are not supported on this system", "beyond its variable"),
        (b"EFI", "cut off"),
        (with_sizes(77, 0, 48), "beyond its variable"),
        (with_sizes(0, 0, 48), "beyond its variable"),
        (with_sizes(0xFFFFFFFF, 0, 48), "beyond its variable"),
        (with_sizes(76, 0, 0), "contradict"),
        (with_sizes(76, 0, 16), "contradict"),
        (with_sizes(76, 0, 47), "contradict"),
        (with_sizes(76, 49, 48), "contradict"),
        (with_sizes(76, 0xFFFFFFFF, 48), "contradict"),
    ],
)
def test_wrong_sizes_are_refused(data, words):
    with pytest.raises(FormatError, match=words):
        efi_list.parse(data, attributes=False)


def test_a_list_that_is_cut_is_refused_except_between_lists():
    data = list_of(SHA256, HASHES[0]) + list_of(X509, CERTIFICATE)
    for size in range(len(data)):
        if size in (0, 76):
            assert len(efi_list.parse(data[:size], attributes=False)) == size // 76
            continue
        with pytest.raises(FormatError):
            efi_list.parse(data[:size], attributes=False)


@pytest.fixture(scope="module")
def efitools():
    return unpacked("efitools", "1.9", "amd64") / "usr/bin"


def test_lists_made_by_efitools_are_read(efitools, tmp_path):
    """cert-to-efi-sig-list and hash-to-efi-sig-list are independent of this parser."""
    pem, made = tmp_path / "cert.pem", tmp_path / "cert.esl"
    from cryptography.hazmat.primitives.serialization import Encoding

    key = make_key("gdrkit test module key")
    pem.write_bytes(key.certificate.public_bytes(Encoding.PEM))
    subprocess.run(
        [efitools / "cert-to-efi-sig-list", "-g", str(OWNER), pem, made], check=True, capture_output=True
    )

    expected = efi_list.EfiSignature("x509", str(OWNER), key.certificate_der)
    assert efi_list.parse(made.read_bytes(), attributes=False) == (expected,)
    assert made.read_bytes() == list_of(X509, key.certificate_der)

    revoked = tmp_path / "cert.hash"
    command = [efitools / "cert-to-efi-hash-list", "-g", str(OWNER), "-s", "256", pem, revoked]
    subprocess.run(command, check=True, capture_output=True)

    (entry,) = efi_list.parse(revoked.read_bytes(), attributes=False)
    assert entry.kind == "x509-sha256"
    certificate = cryptography.x509.load_der_x509_certificate(key.certificate_der)
    signed_part = hashlib.sha256(certificate.tbs_certificate_bytes).digest()
    assert entry.data[:32] == signed_part


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_give_a_value_or_a_format_error(data, attributes):
    try:
        efi_list.parse(data, attributes)
    except FormatError:
        return


@given(st.data())
def test_any_byte_changed_gives_a_value_or_a_format_error(data):
    changed = bytearray(list_of(X509, CERTIFICATE) + list_of(SHA256, *HASHES))
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        efi_list.parse(bytes(changed), attributes=False)
    except FormatError:
        return
