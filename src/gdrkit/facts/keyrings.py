"""The keys that the running kernel has, and the certificates that firmware and shim pass to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gdrkit.evidence import Confidence, EvidenceMissing, Missing, MissingReason
from gdrkit.facts.kernel import config_option, distribution
from gdrkit.facts.secure_boot import DATABASE, SHIM, efi_variable, kernel_sees_secure_boot
from gdrkit.formats.errors import FormatError
from gdrkit.formats.whole_number import whole_number
from gdrkit.node import Node, fact, if_absent, if_missing

if TYPE_CHECKING:
    from gdrkit.formats.x509 import Certificate

BUILTIN, MACHINE, PLATFORM = ".builtin_trusted_keys", ".machine", ".platform"
# Distributions whose kernels also accept the keys in .platform for modules; upstream Linux does not.
# Observed with Debian's 6.1 and 6.12. The kernels of Fedora, Red Hat and Ubuntu have the same patch ("KEYS:
# Make use of platform keyring for module signature verify"), not tested here.
_USE_PLATFORM = frozenset(("debian", "ubuntu", "fedora", "rhel", "centos"))


class ProcKeys(Struct, frozen=True):
    """What root sees in /proc/keys. It does not show which key is in which keyring."""

    keyrings: Mapping[str, int]  # name -> number of keys
    names: Mapping[str, str]  # key id (hex) -> the certificate's name

    def has(self, certificate: Certificate) -> bool:
        return certificate.key_id in self.names

    def has_name(self, common_name: str) -> bool:
        """Whether a certificate has this name, alone or after its organization."""
        return any(name == common_name or name.endswith(f": {common_name}") for name in self.names.values())


class EnrolledCertificate(Struct, frozen=True):
    """A certificate, and the keyring that it is in."""

    certificate: Certificate
    keyring: str

    @property
    def description(self) -> str:
        return self.certificate.kernel_name


@fact
def proc_keys(node: Node) -> ProcKeys:
    """The kernel's keys. Raises EvidenceMissing where they are not readable, as for users other than root.

    Source: Linux security/keys/proc.c, proc_keys_show(); crypto/asymmetric_keys/asymmetric_type.c.
    """
    found = parse(node.text("proc/keys"))
    if BUILTIN not in found.keyrings:
        raise EvidenceMissing(Missing("proc/keys", MissingReason.DENIED, "sudo cat /proc/keys"))
    return found


def parse(text: str) -> ProcKeys:
    """The keyrings and certificates in /proc/keys. Raises FormatError."""
    keyrings, names = {}, {}
    row = re.compile(r"[0-9a-f]+ \S+ +\d+ +\S+ [0-9a-f]{8} +-?\d+ +-?\d+ (?P<type>\S+) +(?P<description>.*)")
    for line in text.splitlines():
        found = row.fullmatch(line)
        if found is None:
            raise FormatError(f"malformed line in /proc/keys: {line[:40]!r}")
        description = found["description"]
        if found["type"] == "keyring":
            name, _, count = description.rpartition(": ")
            keyrings[name] = whole_number(count) or 0
        elif found["type"] == "asymmetri":  # the column is nine characters wide
            described = re.fullmatch(r"(?P<name>.*): (?P<id>[0-9a-f]+): \S+.*", description)
            if described is not None:
                names[described["id"]] = described["name"]
    return ProcKeys(keyrings, names)


@fact
def certificates(node: Node, variable: str, vendor: str) -> tuple[Certificate, ...]:
    """The certificates in an EFI variable of the firmware or shim; () if there is no such variable."""
    from gdrkit.formats import efi_list, x509

    value = if_absent(b"", efi_variable, node, variable, vendor)
    return tuple(
        x509.parse(entry.data) for entry in efi_list.parse(value, attributes=False) if entry.kind == "x509"
    )


@fact
def enrolled_keys(node: Node) -> tuple[EnrolledCertificate, ...]:
    """Machine-owner and firmware keys that the kernel trusts for modules.

    /proc/keys decides. Where it is not readable, they count as trusted if the kernel sees Secure Boot.
    Source: Linux security/integrity/platform_certs/load_uefi.c, load_uefi_certs(), load_moklist_certs().
    """
    collected = collected_certificates(node)
    if not collected:
        return ()
    held = if_missing(None, proc_keys, node)
    found = []
    for certificate, keyring in collected:
        if held is not None and not held.has(certificate):
            continue
        if held is not None and not held.keyrings.get(keyring):
            keyring = PLATFORM  # kernels without a machine keyring put all of them there
        if keyring == MACHINE or platform_is_asked(node):
            found.append(EnrolledCertificate(certificate, keyring))
    if held is None and found:
        if not kernel_sees_secure_boot(node):
            return ()
        node.cite("proc/keys", text="not readable", confidence=Confidence.LIKELY)
    return tuple(found)


@fact
def collected_certificates(node: Node) -> tuple[tuple[Certificate, str], ...]:
    """The certificates of the machine's owner and of the firmware, each with its keyring, trusted or not."""
    return (
        *((certificate, MACHINE) for certificate in certificates(node, "MokListRT", SHIM)),
        *((certificate, PLATFORM) for certificate in certificates(node, "db", DATABASE)),
    )


@fact
def platform_is_asked(node: Node) -> bool:
    """Whether this kernel accepts modules signed by a key in .platform, which has the firmware's keys."""
    used = not distribution(node).family.isdisjoint(_USE_PLATFORM)
    text = "its kernels use .platform keys" if used else "its kernels do not use .platform keys"
    node.cite("etc/os-release", "ID", text, Confidence.LIKELY)
    return used


@fact
def revoked(node: Node) -> tuple[Certificate, ...]:
    """Certificates whose signatures the kernel refuses: those in dbx and MokListXRT.

    Only kernels with CONFIG_SYSTEM_REVOCATION_LIST read them. Source: Linux certs/blacklist.c.
    """
    found = (*certificates(node, "MokListXRT", SHIM), *certificates(node, "dbx", DATABASE))
    if not found or config_option(node, "CONFIG_SYSTEM_REVOCATION_LIST") != "y":
        return ()
    return found
