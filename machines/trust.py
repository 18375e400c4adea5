"""What the kernel trusts: EFI variables, keyrings, lockdown.

Formats: Linux security/keys/proc.c, fs/efivarfs; UEFI 2.10, 32.4.1 (signature lists); shim's MokVars.txt."""

from __future__ import annotations

import struct
import uuid
import zlib

from machines import signing
from machines.machine import Machine
from machines.tree import Tree

_GLOBAL, _SHIM = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "605dab50-e046-4300-abb6-3dd810dd8b23"
_DATABASE = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
_X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")


def write(tree: Tree, machine: Machine) -> None:
    """Write everything about keys."""
    trust = machine.trust
    tree.line("sys/module/module/parameters/sig_enforce", "Y" if trust.sig_enforce else "N")
    words = [
        f"[{word}]" if word == trust.lockdown else word for word in ("none", "integrity", "confidentiality")
    ]
    tree.line("sys/kernel/security/lockdown", " ".join(words))
    if trust.efi:
        variables = "sys/firmware/efi/efivars"
        tree.line("sys/firmware/efi/fw_platform_size", 64)

        def variable(name: str, guid: str, content: bytes) -> None:
            tree.file(f"{variables}/{name}-{guid}", struct.pack("<I", 6) + content)

        variable("SecureBoot", _GLOBAL, bytes([trust.secure_boot]))
        variable("SetupMode", _GLOBAL, b"\0")
        variable("db", _DATABASE, _list(["Microsoft UEFI CA 2011", *trust.db]))
        variable("dbx", _DATABASE, b"")
        variable("MokListRT", _SHIM, _list(trust.mok))
        variable("MokListXRT", _SHIM, _list(trust.revoked))
        variable("MokListTrustedRT", _SHIM, b"\x01")
        if not trust.shim_validation:
            variable("MokSBStateRT", _SHIM, b"\x01")
        shown = "enabled" if trust.secure_boot else "disabled"
        tree.command(
            "sos_commands/boot/mokutil_--sb-state", ("mokutil", "--sb-state"), f"SecureBoot {shown}\n"
        )
    rings: dict[str, list[str]] = {
        ".builtin_trusted_keys": list(machine.builtin),
        ".secondary_trusted_keys": [],
        ".blacklist": list(trust.revoked),
    }
    if trust.efi and trust.secure_boot and trust.shim_validation:
        rings |= {".platform": ["Microsoft UEFI CA 2011", *trust.db], ".machine": list(trust.mok)}
    lines = []
    for ring, names in rings.items():
        count = len(names) or "empty"
        lines.append(f"{_serial(ring)} I------     1 perm 1f0b0000     0     0 keyring   {ring}: {count}")
        for name in names:
            identity = signing.key(name).key_id
            lines.append(
                f"{_serial(ring + name)} I------     1 perm 1f030000     0     0 asymmetri "
                f"{name}: {identity}: X509.rsa {identity[-8:]} []"
            )
    tree.file("proc/keys", "".join(f"{line}\n" for line in sorted(lines)))


def _serial(text: str) -> str:
    return f"{zlib.crc32(text.encode()) & 0x3FFFFFFF:08x}"


def _list(names: list[str]) -> bytes:
    """EFI_SIGNATURE_LISTs, one for each certificate."""
    content = b""
    for name in names:
        der = signing.key(name).der
        content += _X509.bytes_le + struct.pack("<III", 44 + len(der), 0, 16 + len(der)) + bytes(16) + der
    return content
