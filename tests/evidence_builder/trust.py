"""What a kernel trusts: EFI variables and /proc/keys.

Formats: UEFI 2.10, 32.4.1 (EFI_SIGNATURE_LIST); Linux fs/efivarfs/file.c (four bytes of attributes come
first) and security/keys/proc.c; shim's MokVars.txt. Keys are generated for the tests; names are real."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.evidence_builder.tree import Tree
from tests.module_builder import make_key

GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
SHIM = "605dab50-e046-4300-abb6-3dd810dd8b23"
DATABASE = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
_BOOT_RUNTIME = 0x06
_AUTHENTICATED = 0x27


def write(tree: Tree, spec: Mapping[str, Any]) -> None:
    """Write EFI variables, keyrings and what the kernel enforces. `spec`: the node's [trust]."""
    if spec.get("efi", True):
        _efi(tree, spec)
    tree.line("sys/module/module/parameters/sig_enforce", "Y" if spec.get("sig_enforce") else "N")
    lockdown = spec.get("lockdown", "none")
    levels = ["none", "integrity", "confidentiality"]
    if lockdown != "absent":
        words = " ".join(f"[{level}]" if level == lockdown else level for level in levels)
        tree.line("sys/kernel/security/lockdown", words)
    tree.file("proc/keys", _proc_keys(spec))


def _efi(tree: Tree, spec: Mapping[str, Any]) -> None:
    def variable(name: str, guid: str, attributes: int, content: bytes) -> None:
        tree.file(f"sys/firmware/efi/efivars/{name}-{guid}", struct.pack("<I", attributes) + content)

    variable("SecureBoot", GLOBAL, _BOOT_RUNTIME, bytes([spec.get("secure_boot", False)]))
    variable("SetupMode", GLOBAL, _BOOT_RUNTIME, bytes([spec.get("setup_mode", False)]))
    if not spec.get("setup_mode", False):
        variable("db", DATABASE, _AUTHENTICATED, signature_list(spec.get("db", ["Microsoft UEFI CA 2011"])))
        variable("dbx", DATABASE, _AUTHENTICATED, signature_list(spec.get("dbx", [])))
    variable(
        "MokListRT",
        SHIM,
        _BOOT_RUNTIME,
        signature_list(spec.get("mok", ["Canonical Ltd. Master Certificate Authority"])),
    )
    variable("MokListTrustedRT", SHIM, _BOOT_RUNTIME, b"\x01")
    if spec.get("shim_validation_off"):
        variable("MokSBStateRT", SHIM, _BOOT_RUNTIME, b"\x01")
    tree.line("sys/firmware/efi/fw_platform_size", 64)


def signature_list(names: Iterable[str], owner: str = SHIM) -> bytes:
    """One EFI_SIGNATURE_LIST per certificate, as shim and firmware write it."""
    lists = b""
    for name in names:
        der = make_key(name).certificate_der
        size = 16 + len(der)
        lists += X509.bytes_le + struct.pack("<III", 28 + size, 0, size) + uuid.UUID(owner).bytes_le + der
    return lists


def _proc_keys(spec: Mapping[str, Any]) -> str:
    """Lines of /proc/keys, in which no column has the keyring of a key."""
    rings: dict[str, list[str]] = {".builtin_trusted_keys": list(spec.get("builtin", []))}
    rings[".secondary_trusted_keys"] = []
    rings[".blacklist"] = []
    if spec.get("efi", True) and spec.get("secure_boot"):  # load_uefi_certs() reads them only then
        rings[".platform"] = list(spec.get("db", ["Microsoft UEFI CA 2011"]))
        rings[".machine"] = list(spec.get("mok", ["Canonical Ltd. Master Certificate Authority"]))
    lines = []
    for ring, names in rings.items():
        held = str(len(names)) if names else "empty"
        lines.append(f"{_serial(ring)} I------     1 perm 1f0b0000     0     0 keyring   {ring}: {held}")
        for name in names:
            key = make_key(name)
            lines.append(
                f"{_serial(ring + name)} I------     1 perm 1f030000     0     0 asymmetri "
                f"{name}: {key.key_id}: X509.rsa {key.key_id[-8:]} []"
            )
    lines.append(f"{_serial('uid')} I--Q---     2 perm 1f3f0000     0 65534 keyring   _uid.0: empty")
    return "\n".join(sorted(lines)) + "\n"


def _serial(text: str) -> str:
    return f"{zlib.crc32(text.encode()) & 0x3FFFFFFF:08x}"
