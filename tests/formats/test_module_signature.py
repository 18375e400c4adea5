"""Signatures appended to modules: position, signer, and whether the kernel would accept them."""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.formats import compressed, module_signature, x509
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_signature import TrailerFault
from tests.debian_kernels import KERNELS, module, unpacked
from tests.module_builder import append_signature, build_module, make_key, pkcs7, sign
from tests.system_programs import needs, program

CONTENT = build_module("gdr_user")
KEY = make_key("gdrkit test module key")
OTHER = make_key("gdrkit other module key")

needs_openssl = needs("openssl")
needs_kmod = needs("modinfo")
every_kernel = pytest.mark.parametrize(("version", "architecture"), KERNELS)


def digest_of(content):
    return lambda name: hashlib.new(name, content).digest()


def signature_of(data):
    size, trailer = module_signature.split(data)
    assert trailer is not None
    return bytes(data[:size]), module_signature.parse(trailer.pkcs7)


class TestTrailer:
    def test_an_unsigned_module_is_all_content(self):
        assert module_signature.split(CONTENT) == (len(CONTENT), None)
        assert module_signature.split(b"") == (0, None)

    def test_a_signed_module_is_content_and_a_signature(self):
        data = sign(CONTENT, KEY)

        size, trailer = module_signature.split(memoryview(data))

        assert trailer is not None
        assert (size, trailer.fault) == (len(CONTENT), TrailerFault.NONE)
        assert data[size:].startswith(trailer.pkcs7)

    def test_a_marker_before_the_end_is_not_a_signature(self):
        """strip(1) and editors leave the marker inside the file, or cut it."""
        data = sign(CONTENT, KEY)

        assert module_signature.split(data + b"\n")[1] is None
        assert module_signature.split(data[:-1])[1] is None

    @pytest.mark.parametrize(
        ("data", "fault"),
        [
            (module_signature.MARKER.rjust(40, b"x"), TrailerFault.BAD_LENGTH),
            (append_signature(CONTENT, b"s", length=len(CONTENT) + 1), TrailerFault.BAD_LENGTH),
            (append_signature(CONTENT, b"s", length=0xFFFFFFFF), TrailerFault.BAD_LENGTH),
            (append_signature(CONTENT, b"s", id_type=0), TrailerFault.BAD_ID_TYPE),
            (append_signature(CONTENT, b"s", id_type=1), TrailerFault.BAD_ID_TYPE),
            (
                CONTENT + struct.pack(">5B3xI", 1, 0, 2, 0, 0, 0) + module_signature.MARKER,
                TrailerFault.BAD_RESERVED,
            ),
            (CONTENT + b"\0\0\2\0\0\0\1\0\0\0\0\0" + module_signature.MARKER, TrailerFault.BAD_RESERVED),
        ],
    )
    def test_each_error_has_a_name_because_the_kernel_handles_them_differently(self, data, fault):
        size, trailer = module_signature.split(data)

        assert trailer == module_signature.Trailer(fault, b"")
        assert size == len(data) - len(module_signature.MARKER)


class TestSigner:
    def test_issuer_and_serial_number_identify_the_key(self):
        _, signature = signature_of(sign(CONTENT, KEY, digest="sha512"))

        assert signature.issuer == "gdrkit test module key"
        assert int(signature.serial, 16) == KEY.serial
        assert (signature.digest, signature.algorithm) == ("sha512", "rsa")
        assert (signature.subject_key_id, signature.has_attributes) == (None, False)

    def test_a_key_id_can_identify_the_key_instead(self):
        _, signature = signature_of(sign(CONTENT, KEY, by_key_id=True))

        assert (signature.issuer, signature.serial) == ("", "")
        assert signature.subject_key_id == KEY.key_id

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (b"", "cut off"),
            (b"0\x80\x00\x00", "bad length"),
            (b"\x30\x03\x02\x01\x05", "content type"),
            (b"\x04\x01x", "PKCS#7 message"),
            (bytes.fromhex("3006 0604 2a030405"), "not signed data"),
        ],
    )
    def test_other_data_than_a_signature_is_refused(self, data, words):
        with pytest.raises(FormatError, match=words):
            module_signature.parse(data)


class TestVerify:
    @pytest.mark.parametrize("digest", ["sha256", "sha384", "sha512"])
    @pytest.mark.parametrize("by_key_id", [False, True])
    def test_a_signature_of_this_key_is_valid(self, digest, by_key_id):
        content, signature = signature_of(sign(CONTENT, KEY, digest=digest, by_key_id=by_key_id))

        assert module_signature.verify(signature, digest_of(content), x509.parse(KEY.certificate_der))

    def test_altered_content_is_not_valid(self):
        content, signature = signature_of(sign(CONTENT, KEY))
        altered = content[:100] + bytes([content[100] ^ 1]) + content[101:]

        assert not module_signature.verify(signature, digest_of(altered), x509.parse(KEY.certificate_der))

    def test_a_key_that_the_signature_does_not_name_is_not_tried(self):
        """The kernel looks up the key by the signer's name and does not try all its keys."""
        content, signature = signature_of(sign(CONTENT, KEY))

        assert not module_signature.verify(signature, digest_of(content), x509.parse(OTHER.certificate_der))

    def test_another_key_with_the_same_name_and_number_is_not_valid(self):
        content, _ = signature_of(sign(CONTENT, KEY))
        forged = module_signature.parse(pkcs7(CONTENT, OTHER._replace(certificate=KEY.certificate)))

        assert module_signature.names(forged, x509.parse(KEY.certificate_der))
        assert not module_signature.verify(forged, digest_of(content), x509.parse(KEY.certificate_der))

    def test_a_digest_of_the_wrong_length_is_an_error_not_a_refusal(self):
        _, signature = signature_of(sign(CONTENT, KEY))

        with pytest.raises(FormatError, match="not a sha256 digest"):
            module_signature.verify(signature, lambda name: b"short", x509.parse(KEY.certificate_der))

    def test_an_unsupported_algorithm_is_not_a_refusal(self):
        import msgspec

        _, signature = signature_of(sign(CONTENT, KEY))
        newer = msgspec.structs.replace(signature, algorithm="ml-dsa-65")

        with pytest.raises(FormatError, match="unsupported signature: ml-dsa-65"):
            module_signature.verify(newer, digest_of(CONTENT), x509.parse(KEY.certificate_der))


@needs_openssl
class TestAgainstOpenssl:
    @pytest.fixture
    def signed(self, tmp_path):
        """Signs with a key of the test, with extra arguments for `openssl cms`."""
        (tmp_path / "content").write_bytes(CONTENT)

        def make(*arguments, algorithm=("rsa", "-pkeyopt", "rsa_keygen_bits:2048")):
            request = [program("openssl"), "req", "-x509", "-nodes", "-newkey", *algorithm, "-days", "2"]
            request += ["-subj", "/O=Example/CN=Example signer", "-keyout", "key.pem", "-out", "cert.pem"]
            cms = [program("openssl"), "cms", "-sign", "-binary", "-in", "content", "-signer", "cert.pem"]
            cms += ["-inkey", "key.pem", "-outform", "DER", "-out", "sig.der", "-md", "sha256", *arguments]
            der = [program("openssl"), "x509", "-in", "cert.pem", "-outform", "DER", "-out", "cert.der"]
            for command in (request, cms, der):
                subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            signature = module_signature.parse((tmp_path / "sig.der").read_bytes())
            return signature, x509.parse((tmp_path / "cert.der").read_bytes())

        return make

    @pytest.mark.parametrize(
        "algorithm",
        [("rsa", "-pkeyopt", "rsa_keygen_bits:2048"), ("ec", "-pkeyopt", "ec_paramgen_curve:secp384r1")],
    )
    def test_a_signature_made_as_by_sign_file_is_valid(self, signed, algorithm):
        """sign-file calls CMS_add1_signer() with NOCERTS, BINARY, NOSMIMECAP and NOATTR."""
        signature, certificate = signed("-noattr", "-nocerts", "-nosmimecap", algorithm=algorithm)

        assert module_signature.verify(signature, digest_of(CONTENT), certificate)
        assert not module_signature.verify(signature, digest_of(CONTENT + b"x"), certificate)

    def test_certificates_inside_are_ignored(self, signed):
        signature, certificate = signed("-noattr")

        assert module_signature.verify(signature, digest_of(CONTENT), certificate)

    def test_signed_attributes_are_refused_as_in_the_kernel(self, signed):
        signature, certificate = signed("-nocerts")

        assert signature.has_attributes
        assert module_signature.names(signature, certificate)
        assert not module_signature.verify(signature, digest_of(CONTENT), certificate)

    def test_openssl_shows_the_same_fields_of_a_signature(self, tmp_path):
        der = tmp_path / "sig.der"
        der.write_bytes(pkcs7(CONTENT, KEY))
        command = [program("openssl"), "cms", "-cmsout", "-print", "-noout", "-inform", "DER", "-in", der]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout

        signature = module_signature.parse(der.read_bytes())

        assert re.search(r"issuer:.*CN ?= ?(.*)", told)[1] == signature.issuer
        assert int(re.search(r"serialNumber: (\w+)", told)[1], 0) == int(signature.serial, 16)
        assert "sha256" in told


@every_kernel
def test_a_real_module_is_verified_by_the_key_built_into_its_kernel(version, architecture):
    """The complete chain with Debian's files: RSA on 6.1, ECDSA on 6.12; certificates from the kernel
    image."""
    data = compressed.decompress(module(version, architecture, "ib_core").read_bytes(), 1 << 28)
    content, signature = signature_of(data)
    image = kernel_image(unpacked(f"linux-image-{architecture}", version, architecture))

    (certificate,) = {c for c in certificates_in(image) if module_signature.names(signature, c)}

    assert module_signature.verify(signature, digest_of(content), certificate)
    assert not module_signature.verify(signature, digest_of(content[:-1] + b"x"), certificate)


def kernel_image(package):
    """A decompressed kernel. Source: Linux Documentation/arch/x86/boot.rst; arm64 images are not
    compressed."""
    (path,) = package.glob("boot/vmlinuz-*")
    image = path.read_bytes()
    if image[0x202:0x206] != b"HdrS":
        return image
    start = (image[0x1F1] + 1) * 512
    offset, size = struct.unpack_from("<II", image, 0x248)
    packed = image[start + offset : start + offset + size - 4]  # the size of the content follows
    return bytes(compressed.decompress(packed, 1 << 28))


def certificates_in(image):
    for match in re.finditer(rb"(?=\x30\x82(..)\x30\x82..\xa0\x03\x02\x01\x02)", image, re.DOTALL):
        size = int.from_bytes(match[1], "big") + 4
        try:
            yield x509.parse(image[match.start() : match.start() + size])
        except FormatError:
            continue


@needs_kmod
@every_kernel
@pytest.mark.parametrize("name", ["ib_core", "mlx5_ib"])
def test_real_signers_agree_with_modinfo(version, architecture, name):
    path = module(version, architecture, name)
    told = subprocess.run(
        [program("modinfo"), "-0", path], capture_output=True, text=True, check=True
    ).stdout
    fields = dict(line.partition("=")[::2] for line in told.split("\0"))

    _, signature = signature_of(compressed.decompress(path.read_bytes(), 1 << 28))

    assert signature.issuer == fields["signer"]
    assert signature.serial == fields["sig_key"].replace(":", "").lower()
    assert signature.digest == fields["sig_hashalgo"]
    assert signature.signature.hex() == re.sub(r"[\s:]", "", fields["signature"]).lower()


class TestCertificate:
    def test_fields_agree_with_cryptography(self):
        certificate = x509.parse(KEY.certificate_der)

        assert (certificate.subject, certificate.issuer) == (KEY.name, KEY.name)
        assert int(certificate.serial, 16) == KEY.serial
        assert certificate.subject_key_id == certificate.key_id == KEY.key_id
        assert certificate.issuer_der == KEY.certificate.issuer.public_bytes()

    @pytest.mark.parametrize(
        ("subject", "kernel_name"),
        [
            ("/CN=Debian Secure Boot CA", "Debian Secure Boot CA"),
            ("/O=Canonical Ltd./CN=Kernel Module Signing", "Canonical Ltd.: Kernel Module Signing"),
            (
                "/O=Canonical Ltd./CN=Canonical Ltd. Secure Boot Signing",
                "Canonical Ltd. Secure Boot Signing",
            ),
            ("/O=Only Organization", "Only Organization"),
            ("/emailAddress=kernel@example.org", "kernel@example.org"),
        ],
    )
    @needs_openssl
    def test_certificate_names_are_those_of_the_kernel(self, tmp_path, subject, kernel_name):
        request = [
            program("openssl"),
            "req",
            "-x509",
            "-nodes",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
        ]
        request += [
            "-subj",
            subject,
            "-keyout",
            tmp_path / "key",
            "-outform",
            "DER",
            "-out",
            tmp_path / "der",
        ]
        subprocess.run(request, check=True, capture_output=True)

        certificate = x509.parse((tmp_path / "der").read_bytes())

        assert certificate.kernel_name == kernel_name

    def test_pem_is_not_der(self):
        with pytest.raises(FormatError):
            x509.parse(KEY.certificate.public_bytes(Encoding.PEM))


MESSAGE = pkcs7(CONTENT, KEY)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_format_error(data):
    for parse in (module_signature.parse, x509.parse):
        try:
            parse(data)
        except FormatError:
            continue
    module_signature.split(data)
    module_signature.split(data + module_signature.MARKER)


@pytest.mark.parametrize("original", [MESSAGE, KEY.certificate_der], ids=["pkcs7", "certificate"])
@given(st.data())
def test_any_byte_changed_gives_a_value_or_a_format_error(original, data):
    changed = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    parse = module_signature.parse if original is MESSAGE else x509.parse
    try:
        parse(bytes(changed))
    except FormatError:
        return


@pytest.mark.parametrize("original", [MESSAGE, KEY.certificate_der], ids=["pkcs7", "certificate"])
def test_every_truncation_is_refused(original):
    parse = module_signature.parse if original is MESSAGE else x509.parse
    for size in range(len(original)):
        with pytest.raises(FormatError):
            parse(original[:size])
