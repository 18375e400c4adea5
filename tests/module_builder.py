"""Kernel modules and signatures made in memory, as the compiler, modpost and sign-file make them.

    module = build_module("gdr_user", imports={"gdr_hello": 0x1234}, depends=("gdr_provider",))
    key = make_key("Example DKMS module signing key")
    signed = sign(module, key)

The files are relocatable ELF objects with every section that the module loader, depmod and modinfo read;
their code is a few bytes and not meant to run. Source of the formats: Linux
scripts/mod/modpost.c (.modinfo, __versions, .gnu.linkonce.this_module), include/linux/export*.h
(__ksymtab, __kcrctab, __ksymtab_strings), scripts/sign-file.c (the signature and its trailer).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243}
MODULE_LAYOUT_CRC = 0x4C416701  # of the fictitious kernel in the default vermagic
RELEASE = "6.1.0-56-amd64"
VERMAGIC = {
    "x86_64": RELEASE + " SMP preempt mod_unload modversions ",
    "aarch64": "6.1.0-56-arm64 SMP mod_unload modversions aarch64",
    "riscv64": "6.1.0-56-riscv64 SMP mod_unload modversions riscv",
}
STRUCT_MODULE_SIZE = {"x86_64": 0x480, "aarch64": 0x400, "riscv64": 0x400}
MAGIC = b"~Module signature appended~\n"

_NULL, _PROGBITS, _SYMTAB, _STRTAB, _NOTE, _NOBITS = 0, 1, 2, 3, 7, 8
_WRITE, _ALLOC, _EXEC = 1, 2, 4
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2


class Export(NamedTuple):
    """An exported symbol; a plain CRC is short for Export(crc)."""

    crc: int | None
    gpl_only: bool = False
    namespace: str = ""


class _Section(NamedTuple):
    name: str
    type: int
    flags: int
    content: bytes
    link: int = 0
    info: int = 0
    entry_size: int = 0
    alignment: int = 8


def build_module(
    name: str,
    *,
    imports: Mapping[str, int | None] = {},
    weak_imports: Mapping[str, int | None] = {},
    exports: Mapping[str, int | Export] = {},
    license: str = "GPL",
    depends: Iterable[str] = (),
    parameters: Mapping[str, str] = {},
    modinfo: Mapping[str, str] | Iterable[tuple[str, str]] = (),  # added at the end, in order
    vermagic: str | None = None,  # None: that of the default kernel of this machine; "" leaves it out
    machine: str = "x86_64",
    versions: bool = True,  # False: no __versions section at all (CONFIG_MODVERSIONS off)
    module_layout: int | None = MODULE_LAYOUT_CRC,
    extended_versions: bool = False,  # also __version_ext_crcs and __version_ext_names
    struct_module_size: int | None = None,
    retpoline: bool | None = None,  # None: the default for the machine
    intree: bool = False,
    code_bytes: int = 32,
    static_symbols: Iterable[str] = (),  # defined but not exported
    entry: Iterable[str] = (),  # local names of the init function
    build_id: bytes = b"",  # the whole note
) -> bytes:
    """A module file, unsigned and uncompressed."""
    exported = {symbol: e if isinstance(e, Export) else Export(e) for symbol, e in exports.items()}
    info = _modinfo(
        name,
        license=license,
        depends=depends,
        parameters=parameters,
        more=modinfo,
        vermagic=VERMAGIC[machine] if vermagic is None else vermagic,
        retpoline=machine == "x86_64" if retpoline is None else retpoline,
        intree=intree,
    )
    wanted = {**imports, **weak_imports}
    crcs = {} if module_layout is None else {"module_layout": module_layout}
    crcs |= {symbol: crc for symbol, crc in wanted.items() if crc is not None}
    size = STRUCT_MODULE_SIZE[machine] if struct_module_size is None else struct_module_size
    this_module = (b"\0" * 24 + name.encode() + b"\0").ljust(size, b"\0")
    sections = [
        _Section("", _NULL, 0, b"", alignment=0),
        _Section(".text", _PROGBITS, _ALLOC | _EXEC, b"\xc3" * code_bytes, alignment=16),
        _Section(".init.text", _PROGBITS, _ALLOC | _EXEC, b"\x31\xc0\xc3\xcc", alignment=16),
        _Section(".modinfo", _PROGBITS, _ALLOC, info, alignment=1),
        _Section(".gnu.linkonce.this_module", _PROGBITS, _ALLOC | _WRITE, this_module, alignment=64),
        _Section(".bss", _NOBITS, _ALLOC | _WRITE, b"\0" * 64),
    ]
    if build_id:
        sections.append(_Section(".note.gnu.build-id", _NOTE, _ALLOC, build_id))
    if versions:
        sections.append(_Section("__versions", _PROGBITS, _ALLOC, _versions(crcs), alignment=32))
    if versions and extended_versions:
        table = b"".join(struct.pack("<I", crc) for crc in crcs.values())
        sections.append(_Section("__version_ext_crcs", _PROGBITS, _ALLOC, table, alignment=4))
        names = b"".join(symbol.encode() + b"\0" for symbol in crcs)
        sections.append(_Section("__version_ext_names", _PROGBITS, _ALLOC, names, alignment=1))
    symbols = _Symbols()
    symbols.add("init_module", section=2, size=4)
    symbols.add("__this_module", section=4, size=size)
    for symbol in static_symbols:
        symbols.add(symbol, section=1, binding=_LOCAL)
    for symbol in entry:
        symbols.add(symbol, section=2, binding=_LOCAL)
    _export(sections, symbols, exported)
    for symbol in imports:
        symbols.add(symbol)
    for symbol in weak_imports:
        symbols.add(symbol, binding=_WEAK)
    return _link(sections, symbols, MACHINES[machine])


def _modinfo(
    name: str,
    *,
    license: str,
    depends: Iterable[str],
    parameters: Mapping[str, str],
    more: Mapping[str, str] | Iterable[tuple[str, str]],
    vermagic: str,
    retpoline: bool,
    intree: bool,
) -> bytes:
    fields = [("license", license)] if license else []
    for parameter, kind in parameters.items():
        fields += [("parmtype", f"{parameter}:{kind}"), ("parm", f"{parameter}:{parameter} of {name}")]
    fields.append(("depends", ",".join(depends)))
    if retpoline:
        fields.append(("retpoline", "Y"))
    if intree:
        fields.append(("intree", "Y"))
    fields.append(("name", name))
    if vermagic:
        fields.append(("vermagic", vermagic))
    fields += more.items() if isinstance(more, Mapping) else more
    return b"".join(f"{key}={value}".encode() + b"\0" for key, value in fields)


def _versions(crcs: Mapping[str, int]) -> bytes:
    return b"".join(struct.pack("<Q56s", crc, symbol.encode()[:55]) for symbol, crc in crcs.items())


class _Symbols:
    """A symbol table under construction."""

    def __init__(self) -> None:
        self.names = bytearray(b"\0")
        self.local: list[bytes] = [b"\0" * 24]
        self.other: list[bytes] = []

    def add(
        self, name: str, *, section: int = 0, value: int = 0, size: int = 0, binding: int = _GLOBAL
    ) -> None:
        kind = 0 if section == 0 else 2 if section in (1, 2) else 1  # NOTYPE, FUNC, OBJECT
        entry = struct.pack("<IBBHQQ", len(self.names), binding << 4 | kind, 0, section, value, size)
        (self.local if binding == _LOCAL else self.other).append(entry)
        self.names += name.encode() + b"\0"


def _export(sections: list[_Section], symbols: _Symbols, exported: Mapping[str, Export]) -> None:
    """The tables of EXPORT_SYMBOL: kernel_symbol records of three relative references, a CRC, strings."""
    strings = bytearray()
    at_strings = len(sections)
    if exported:
        sections.append(_Section("__ksymtab_strings", _PROGBITS, _ALLOC, b"", alignment=1))
    for suffix, gpl_only in (("", False), ("_gpl", True)):
        chosen = {symbol: e for symbol, e in sorted(exported.items()) if e.gpl_only is gpl_only}
        if not chosen:
            continue
        at_ksymtab = len(sections)
        sections.append(
            _Section("__ksymtab" + suffix, _PROGBITS, _ALLOC, b"\0" * 12 * len(chosen), alignment=4)
        )
        crcs = [e.crc for e in chosen.values() if e.crc is not None]
        at_kcrctab = len(sections)
        if crcs:
            table = b"".join(struct.pack("<I", crc) for crc in crcs)
            sections.append(_Section("__kcrctab" + suffix, _PROGBITS, _ALLOC, table, alignment=4))
        with_crc = 0
        for index, (symbol, export) in enumerate(chosen.items()):
            symbols.add(symbol, section=1, size=1)
            symbols.add("__ksymtab_" + symbol, section=at_ksymtab, value=12 * index, binding=_LOCAL)
            symbols.add("__kstrtab_" + symbol, section=at_strings, value=len(strings), binding=_LOCAL)
            strings += symbol.encode() + b"\0"
            symbols.add("__kstrtabns_" + symbol, section=at_strings, value=len(strings), binding=_LOCAL)
            strings += export.namespace.encode() + b"\0"
            if export.crc is not None:
                symbols.add("__crc_" + symbol, section=at_kcrctab, value=4 * with_crc, binding=_LOCAL)
                with_crc += 1
    if exported:
        sections[at_strings] = sections[at_strings]._replace(content=bytes(strings))


def _link(sections: list[_Section], symbols: _Symbols, machine: int) -> bytes:
    table = b"".join(symbols.local + symbols.other)
    first_global = len(symbols.local)
    at = len(sections)
    sections.append(_Section(".symtab", _SYMTAB, 0, table, link=at + 1, info=first_global, entry_size=24))
    sections.append(_Section(".strtab", _STRTAB, 0, bytes(symbols.names), alignment=1))
    names, offsets = bytearray(), []
    for section in (*sections, _Section(".shstrtab", _STRTAB, 0, b"")):
        offsets.append(len(names))
        names += section.name.encode() + b"\0"
    sections.append(_Section(".shstrtab", _STRTAB, 0, bytes(names), alignment=1))
    body, headers = bytearray(64), []
    for section, at_name in zip(sections, offsets, strict=True):
        if section.type != _NULL:
            body += b"\0" * (-len(body) % max(section.alignment, 1))
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ",
                at_name,
                section.type,
                section.flags,
                0,
                0 if section.type == _NULL else len(body),
                len(section.content),
                section.link,
                section.info,
                section.alignment,
                section.entry_size,
            )
        )
        if section.type != _NOBITS:
            body += section.content
    body += b"\0" * (-len(body) % 8)
    body[:64] = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH",
        *(b"\x7fELF", 2, 1, 1, 0, 1, machine, 1, 0, 0, len(body), 0, 64, 0, 0, 64),
        *(len(sections), len(sections) - 1),
    )
    return bytes(body) + b"".join(headers)


# -- signatures ----------------------------------------------------------------------------------------


class Key(NamedTuple):
    """A signing key and its certificate."""

    name: str
    private: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @property
    def certificate_der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def serial(self) -> int:
        return self.certificate.serial_number

    @property
    def key_id(self) -> str:
        """The subject key identifier in hex, which /proc/keys shows after the key's name."""
        found = self.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        return found.value.digest.hex()


@functools.cache
def make_key(name: str) -> Key:
    """A self-signed certificate for this common name, as mokutil and DKMS make them; cached by name."""
    private = rsa.generate_private_key(65537, 2048)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2025, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2125, 1, 1, tzinfo=UTC))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, hashes.SHA256())
    )
    return Key(name, private, certificate)


def sign(module: bytes, key: Key, *, digest: str = "sha256", by_key_id: bool = False) -> bytes:
    """The module with a signature appended as by scripts/sign-file: detached PKCS#7, no attributes.

    `by_key_id` identifies the signer by subject key identifier (sign-file -k) instead of issuer and
    serial."""
    return append_signature(module, pkcs7(module, key, digest=digest, by_key_id=by_key_id))


def append_signature(
    module: bytes, signature: bytes, *, id_type: int = 2, length: int | None = None, algorithm: int = 0
) -> bytes:
    """The module with any bytes as its signature, and the trailer (Linux
    include/linux/module_signature.h)."""
    stated = len(signature) if length is None else length
    return module + signature + struct.pack(">BBBBB3xI", algorithm, 0, id_type, 0, 0, stated) + MAGIC


def pkcs7(content: bytes, key: Key, *, digest: str = "sha256", by_key_id: bool = False) -> bytes:
    """Only the detached signature, as DER; Ubuntu ships it in *.ko.sig."""
    from asn1crypto import algos, cms
    from asn1crypto import x509 as asn1_x509

    algorithm = {
        "sha1": hashes.SHA1(),
        "sha256": hashes.SHA256(),
        "sha384": hashes.SHA384(),
        "sha512": hashes.SHA512(),
    }[digest]
    signature = key.private.sign(content, padding.PKCS1v15(), algorithm)
    certificate = asn1_x509.Certificate.load(key.certificate_der)
    signer = (
        cms.SignerIdentifier({"subject_key_identifier": bytes.fromhex(key.key_id)})
        if by_key_id
        else cms.SignerIdentifier(
            {
                "issuer_and_serial_number": cms.IssuerAndSerialNumber(
                    {"issuer": certificate.issuer, "serial_number": certificate.serial_number}
                )
            }
        )
    )
    hashed = algos.DigestAlgorithm({"algorithm": digest})
    signer_info = cms.SignerInfo(
        {
            "version": "v3" if by_key_id else "v1",
            "sid": signer,
            "digest_algorithm": hashed,
            "signature_algorithm": algos.SignedDigestAlgorithm({"algorithm": "rsassa_pkcs1v15"}),
            "signature": signature,
        }
    )
    signed = cms.SignedData(
        {
            "version": "v3" if by_key_id else "v1",
            "digest_algorithms": [hashed],
            "encap_content_info": {"content_type": "data"},
            "signer_infos": [signer_info],
        }
    )
    return bytes(cms.ContentInfo({"content_type": "signed_data", "content": signed}).dump())
