"""UEFI guests: a variable store with keys enrolled offline, and an ESP with the real shim and grub.

OVMF with Microsoft's keys starts Debian's shim, which starts Debian's grub, which starts Debian's kernel,
as on a real machine. There a person enrols keys at the console; here virt-fw-vars (PyPI virt-firmware),
which only the lab uses, writes them into the variable store before the boot.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from lab.cache import LabError, command, digest, folder, say
from lab.kernels import apt
from lab.machine import Firmware
from lab.packages import Archive, Package, unpack
from lab.profiles import Enrolment, Profile
from lab.variants import key_files

_CODE = Path("/usr/share/OVMF/OVMF_CODE_4M.ms.fd")
_VARIABLES = Path("/usr/share/OVMF/OVMF_VARS_4M.ms.fd")  # Microsoft's PK, KEK and db
_TOOL = "virt-firmware==26.10"
_PINS = Path(__file__).parent.parent / "requirements-lab.txt"  # what it needs: tools/pin.py
SHIM = uuid.UUID("605dab50-e046-4300-abb6-3dd810dd8b23")  # shim: lib/guid.c, SHIM_LOCK_GUID
_IMAGE_SECURITY = uuid.UUID("d719b2cb-3d3a-4596-a3bc-dad00e67656f")  # UEFI: EFI_IMAGE_SECURITY_DATABASE_GUID
_X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")  # UEFI: EFI_CERT_X509_GUID
_X509_SHA256 = uuid.UUID("3bd2a492-96c0-4079-b420-fcf98ef103ed")  # UEFI: EFI_CERT_X509_SHA256_GUID
_BOOT_ONLY = 3  # EFI_VARIABLE_NON_VOLATILE | EFI_VARIABLE_BOOTSERVICE_ACCESS
_AUTHENTICATED = 0x27  # those, runtime access, time based authenticated write access


def signature_list(kind: uuid.UUID, owner: uuid.UUID, contents: Iterable[bytes]) -> bytes:
    """EFI_SIGNATURE_LISTs with one entry each (UEFI specification, 32.4.1)."""
    lists = []
    for content in contents:
        size = 16 + len(content)
        lists.append(kind.bytes_le + struct.pack("<III", 28 + size, 0, size) + owner.bytes_le + content)
    return b"".join(lists)


def certificate(name: str) -> bytes:
    """A lab key's certificate as DER."""
    return key_files(name)[1].read_bytes()


def to_be_signed(der: bytes) -> bytes:
    """A certificate's inner SEQUENCE with its header, which a hash of its "TBS" covers (RFC 5280, 4.1)."""
    inner = 4 if der[1] == 0x82 else 2 if der[1] < 0x80 else 3
    length = der[inner + 1]
    if length == 0x82:
        size = 4 + int.from_bytes(der[inner + 2 : inner + 4], "big")
    else:
        size = 3 + der[inner + 2] if length == 0x81 else 2 + length
    return der[inner : inner + size]


def firmware(profile: Profile, archive: Archive) -> Firmware | None:
    """The profile's firmware, with the distribution's own shim and grub; None without UEFI."""
    if not profile.firmware:
        return None
    if not _CODE.exists():
        raise LabError("OVMF is not installed; sudo apt-get install -y ovmf")
    ovmf = command("dpkg-query", "-W", "-f", "ovmf ${Version}", "ovmf").decode()
    if profile.firmware != "shim":
        return Firmware(_CODE, variables(profile.enrol), packages=(ovmf,))
    packages = apt("amd64", archive).download("shim-signed", "grub-efi-amd64-signed")
    versions = (f"{package.name} {package.version}" for package in packages)
    return Firmware(_CODE, variables(profile.enrol), _esp(packages), (ovmf, *versions))


def variables(enrol: Enrolment) -> Path:
    """The variable store of an enrolment, made once."""
    names = sorted({*enrol.db, *enrol.mok, *enrol.mok_revoked, *enrol.dbx, *enrol.dbx_hashes})
    path = folder("firmware") / f"{digest(enrol, [certificate(name) for name in names], _TOOL)}.fd"
    if path.exists():
        return path
    say("enrolling keys in a UEFI variable store")
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch, "variables.json")
        table.write_text(json.dumps({"version": 2, "variables": _table(enrol)}))
        part = Path(scratch, "variables.fd")
        arguments = ["-i", str(_VARIABLES), "-o", str(part), "--set-json", str(table)]
        for name in enrol.db:
            arguments += ["--add-db", str(SHIM), str(key_files(name)[2])]
        for name in enrol.mok:
            arguments += ["--add-mok", str(SHIM), str(key_files(name)[2])]
        for name in enrol.dbx:
            arguments += ["--add-dbx-cert", str(SHIM), str(key_files(name)[2])]
        if enrol.disabled:
            arguments += ["--set-false", "SecureBootEnable"]
        uv = os.environ.get("UV", "uv")  # with `pipx run uv run` it is not in PATH, but in this variable
        if shutil.which(uv) is None:
            raise LabError("uv is not installed; pipx install uv")
        command(
            uv, "tool", "run", "-q", "--constraints", str(_PINS), "--from", _TOOL, "virt-fw-vars", *arguments
        )
        path.write_bytes(part.read_bytes())
    return path


def _table(enrol: Enrolment) -> list[dict[str, object]]:
    """Variables that virt-fw-vars has no option for."""
    rows = []
    for name, value in enrol.shim:
        rows.append(_row(name, SHIM, _BOOT_ONLY, bytes.fromhex(value)))
    if enrol.mok_revoked:
        data = signature_list(_X509, SHIM, map(certificate, enrol.mok_revoked))
        rows.append(_row("MokListX", SHIM, _BOOT_ONLY, data))
    if enrol.dbx_hashes:  # SHA-256 of the certificate's TBS, then a time of revocation (zero here)
        hashes = [
            hashlib.sha256(to_be_signed(certificate(name))).digest() + bytes(16) for name in enrol.dbx_hashes
        ]
        rows.append(_row("dbx", _IMAGE_SECURITY, _AUTHENTICATED, signature_list(_X509_SHA256, SHIM, hashes)))
    return rows


def _row(name: str, guid: uuid.UUID, attributes: int, data: bytes) -> dict[str, object]:
    row: dict[str, object] = {"name": name, "guid": str(guid), "attr": attributes, "data": data.hex()}
    if attributes == _AUTHENTICATED:
        row["time"] = bytes.fromhex("e8070101000000000000000000000000").hex()
    return row


def _esp(packages: tuple[Package, ...]) -> Path:
    """An ESP with Debian's shim and grub, both as signed and shipped."""
    home = folder("esp", digest([package.version for package in packages]))
    boot = home / "EFI/BOOT"
    if boot.exists():
        return home
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        for package in packages:
            unpack(package, root)
        part = home / "part"
        part.mkdir(exist_ok=True)
        (part / "BOOTX64.EFI").write_bytes((root / "usr/lib/shim/shimx64.efi.signed").read_bytes())
        grub = root / "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
        (part / "grubx64.efi").write_bytes(grub.read_bytes())
        boot.parent.mkdir(exist_ok=True)
        part.replace(boot)
    return home
