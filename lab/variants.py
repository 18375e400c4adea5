"""A case's module file: renamed, tampered with, signed, damaged, compressed, in this order."""

from __future__ import annotations

import errno
import gzip
import lzma
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

from msgspec import Struct

from lab import elf_edit
from lab.cache import LabError, command, folder
from lab.kernels import Kernel
from lab.modules import ANSWER
from lab.names import Name, Naming
from lab.sources import source
from lab.toolchain import WORK, inside

SIGNATURE_MAGIC = b"~Module signature appended~\n"  # include/linux/module_signature.h
KEYS = ("lab", "unknown", "revoked", "second")
OF_THE_KERNEL = "kernel:"  # before the name of one of the kernel's own modules, with its signature
DEFAULT_KEY = "default"  # the boot profile's key; most profiles have none
ENOTSUPP = 524  # include/linux/errno.h: the kernel's own, unknown to user space
_AARCH64, _X86_64 = 183, 62  # e_machine


class Variant(Struct, frozen=True):
    """How one module file differs from its compiled source."""

    source: str
    answer: str = "0"  # what init returns: 0, +3, or an errno's name
    tamper: tuple[str, ...] = ()  # before signing
    key: str = DEFAULT_KEY  # signs the module; empty: unsigned
    digest: str = "sha256"
    damage: tuple[str, ...] = ()  # after signing
    compression: str = ""  # xz, zst, gz
    packing: str = ""  # how: see compress()
    torn: str = ""  # a change of the compressed file: cut, altered
    seal: str = ""  # a key that signs the compressed file; loaders ignore that signature


def answer_value(word: str) -> int:
    """The return value of init for an `answer`."""
    if word == "ENOTSUPP":
        return -ENOTSUPP
    return int(word) if word.lstrip("+-").isdigit() else -int(getattr(errno, word))


def make(kernel: Kernel, compiled: dict[str, bytes], naming: Naming, variant: Variant) -> bytes:
    """The module file's bytes."""
    if variant.source.startswith(OF_THE_KERNEL):
        content = kernel.module(variant.source.removeprefix(OF_THE_KERNEL))
    else:
        content = elf_edit.set_answer(compiled[variant.source], ANSWER, answer_value(variant.answer))
        content = naming.apply(content)
    for word in variant.tamper:
        content = _tamper(content, word, naming, variant)
    if variant.key:
        content = sign(kernel, content, variant.key, variant.digest)
    for word in variant.damage:
        content = _damage(content, word, kernel)
    content = _tear(compress(content, variant.compression, variant.packing), variant.torn)
    return sign(kernel, content, variant.seal, variant.digest) if variant.seal else content


def _tamper(content: bytes, word: str, naming: Naming, variant: Variant) -> bytes:
    kind, _, value = word.partition(":")
    magic = elf_edit.modinfo(content, "vermagic") if kind.startswith("vermagic") else ""
    match kind:
        case "vermagic-release":
            release = magic.split()[0]
            return elf_edit.edit_modinfo(
                content, "vermagic", magic, magic.replace(release, release[:-1] + "X")
            )
        case "vermagic-flags":
            return elf_edit.edit_modinfo(content, "vermagic", magic, magic.replace("SMP", "UP!"))
        case "license":
            return elf_edit.edit_modinfo(content, "license", "GPL", value)
        case "crc":
            return elf_edit.edit_version(content, naming.fill(value))
        case "no-crc":
            return elf_edit.edit_version(content, naming.fill(value), name="lab_nothing")
        case "no-versions":
            return elf_edit.rename_section(content, "__versions", "__nothings")
        case "namespace":
            name = naming.names[Name("namespace", value)]
            return elf_edit.edit_modinfo(content, "import_ns", name, name[::-1])
        case "architecture":
            (machine,) = struct.unpack_from("<H", content, 0x12)
            return elf_edit.set_machine(content, _AARCH64 if machine == _X86_64 else _X86_64)
        case "struct-size":  # Linux before 6.4 does not check it
            return elf_edit.grow_section(content, ".gnu.linkonce.this_module", 64)
        case "truncate":
            return content[: len(content) * 2 // 3]
        case "garbage":
            return b"this is not a kernel module\n" * 64
        case "empty":
            return b""
        case "as":  # take the name of another module, of the same length
            own, other = naming.module(source(variant.source).identity), naming.module(value)
            return content.replace(own.encode(), other.encode())
    raise LabError(f"no such tampering: {word}")


def _damage(content: bytes, word: str, kernel: Kernel) -> bytes:
    match word:
        case "flip":
            return elf_edit.flip(content, ".note.gnu.build-id")  # which no loader reads
        case "strip":
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch, "x.ko")
                path.write_bytes(content)
                command(kernel.cross + "strip", "-g", path)
                return path.read_bytes()
        case "cut-magic":
            return content[:-1]
        case "flip-signature":  # in the signature value, which ends just before the trailer
            at = len(content) - len(SIGNATURE_MAGIC) - 12 - 5
            return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        case "long-signature":  # struct module_signature.sig_len, the big endian word before the magic
            at = len(content) - len(SIGNATURE_MAGIC)
            return content[: at - 4] + struct.pack(">I", len(content) * 2) + content[at:]
        case "id-type":  # struct module_signature.id_type: PKCS#7 is 2
            at = len(content) - len(SIGNATURE_MAGIC) - 10
            return content[:at] + b"\1" + content[at + 1 :]
        case "reserved":  # struct module_signature.__pad must be 0
            at = len(content) - len(SIGNATURE_MAGIC) - 5
            return content[:at] + b"\1" + content[at + 1 :]
        case "twice":
            return content + content[-12 - len(SIGNATURE_MAGIC) :]
        case "append":
            return content + b"\n"
    raise LabError(f"no such damage: {word}")


_FILTERS: dict[str, list[dict[str, Any]]] = {
    "delta": [{"id": lzma.FILTER_DELTA}],  # which no kernel has
    "x86": [{"id": lzma.FILTER_X86}],
    "arm": [{"id": lzma.FILTER_ARM}],
    "two": [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_DELTA}],
}
_CHECKS = {"none": lzma.CHECK_NONE, "crc64": lzma.CHECK_CRC64, "sha256": lzma.CHECK_SHA256}
_BEHIND = {
    "trailing": b"bytes that belong to no stream\n",
    "trailing-few": b"abc",
    "padded": bytes(8),
    "padded-oddly": bytes(6),
}


def compress(content: bytes, kind: str, packing: str = "") -> bytes:
    """Compressed content (kmod: xz, zst, gz).

    `packing`: a check of xz, a filter, `sized` (zstd with the content's size), `streams` (two halves, each
    in a stream of its own), `stream-and-none` (an empty one behind it), or what follows the stream.
    """
    if packing == "streams":
        middle = len(content) // 2
        return compress(content[:middle], kind, "sized") + compress(content[middle:], kind, "sized")
    if packing == "stream-and-none":
        return compress(content, kind, "sized") + compress(b"", kind, "sized")
    behind = _BEHIND.get(packing, b"")
    match kind:
        case "":
            return content
        case "xz":  # with CRC32, as the kernel's own modules: scripts/Makefile.modinst
            filters = [*_FILTERS.get(packing, ()), {"id": lzma.FILTER_LZMA2, "preset": 6}]
            check = _CHECKS.get(packing, lzma.CHECK_CRC32)
            return lzma.compress(content, check=check, filters=filters) + behind
        case "gz":
            return gzip.compress(content, mtime=0) + behind
        case "zst":  # from standard input zstd does not know the size
            size = () if not packing else (f"--stream-size={len(content)}",)
            return command("zstd", "-q", "-c", *size, stdin=content) + behind
    raise LabError(f"no such compression: {kind}")


def _tear(content: bytes, how: str) -> bytes:
    match how:
        case "":
            return content
        case "cut":
            return content[: len(content) // 2]
        case "altered":
            at = len(content) // 2
            return content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :]
    raise LabError(f"no such tear: {how}")


def key_files(name: str) -> tuple[Path, Path, Path]:
    """One of the lab's signing keys: private key, certificate as DER, certificate as PEM. Created once."""
    home = folder("keys")
    private, der, pem = home / f"{name}.priv", home / f"{name}.der", home / f"{name}.pem"
    if not der.exists():
        extensions = [
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=digitalSignature",
            "extendedKeyUsage=codeSigning",
        ]
        arguments = [part for line in extensions for part in ("-addext", line)]
        command(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-sha256", "-nodes", "-days", "36500",
            "-subj", f"/CN=Lab {name} key", "-keyout", private, "-out", pem, *arguments,
        )  # fmt: skip
        command("openssl", "x509", "-in", pem, "-outform", "DER", "-out", der)
    return private, der, pem


def sign(kernel: Kernel, content: bytes, key: str, digest: str = "sha256") -> bytes:
    """The content with a signature appended by the kernel's own sign-file."""
    private, der, _ = key_files(key)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "x.ko")
        path.write_bytes(content)
        if kernel.tools is None:
            command(f"{kernel.own_headers}/scripts/sign-file", digest, private, der, path)
        else:
            for key_file in (private, der):
                shutil.copy(key_file, scratch)
            files = (f"{WORK}/{file.name}" for file in (private, der, path))
            inside(kernel.tools, Path(scratch), f"{kernel.own_headers}/scripts/sign-file", digest, *files)
        return path.read_bytes()
