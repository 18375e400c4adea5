"""The key with which DKMS signs every module that it builds."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, Missing, MissingReason
from gdrkit.evidence.quoting import quoted
from gdrkit.facts.kernel import release
from gdrkit.facts.machine import distribution
from gdrkit.facts.trust import signature
from gdrkit.formats.errors import FormatError
from gdrkit.formats.module_signature import names
from gdrkit.formats.regex import regex
from gdrkit.node import Node, fact, if_absent, if_missing

CONFIGURATION = "etc/dkms/framework.conf"
CONFIGURATION_FOLDER = "etc/dkms/framework.conf.d"
"""Read after the file, each *.conf in order: dkms.in, read_framework_conf()."""


class SigningKey(Struct, frozen=True):
    """A private key and its certificate, as absolute paths."""

    key: str
    certificate: str


_OF_DKMS = SigningKey("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
_OF_UBUNTU = SigningKey("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
"""Source: dkms.in, prepare_mok(). `update-secureboot-policy --new-key` of Ubuntu's shim-signed makes the
second pair; Debian's has no such option."""

_ASSIGNMENT = regex(r"\s*(mok_signing_key|mok_certificate)=(\S*)\s*(?:#.*)?")
_PATH = regex(r"(?:/[\w.+@$-]+)+")


@fact
def dkms_key(node: Node) -> SigningKey:
    """The pair that DKMS signs with. Raises EvidenceAbsent where there is none: DKMS then makes one.

    A key in framework.conf counts before the places of the distribution; on Ubuntu, a certificate alone does
    not."""
    said = _configured(node)
    on_ubuntu = distribution(node).id.startswith("ubuntu") and "mok_signing_key" not in said
    pair = _OF_UBUNTU if on_ubuntu else _said(said)
    if not node.exists(pair.certificate.lstrip("/")) or not if_missing(
        True, node.exists, pair.key.lstrip("/")
    ):
        ask = f"ls -l {quoted(pair.certificate)}"
        raise EvidenceAbsent(Missing(pair.certificate, MissingReason.ABSENT, ask))
    return pair


@fact
def signers_certificate(node: Node, path: str) -> str:
    """The certificate of DKMS, as an absolute path, that is of the key which signed a module: with it
    enrolled, the kernel takes the module as it is. "" where none is known to be."""
    from gdrkit.formats import x509

    signed = if_missing(None, signature, node, path)
    said = if_missing({}, _configured, node)
    for place in dict.fromkeys((_OF_UBUNTU.certificate, _said(said).certificate)):
        content = if_missing(b"", node.read, place.lstrip("/"))
        with contextlib.suppress(FormatError):  # one in another form is of no key that is known
            if signed is not None and content and names(signed, x509.parse(content)):
                node.cite(place, text=f"signed {path}")
                return place
    return ""


def _said(said: dict[str, str]) -> SigningKey:
    return SigningKey(
        said.get("mok_signing_key", _OF_DKMS.key), said.get("mok_certificate", _OF_DKMS.certificate)
    )


def _configured(node: Node) -> dict[str, str]:
    """The paths that the configuration sets; a later line counts. Raises EvidenceMissing for what is
    not a plain path, such as the address of a key in hardware."""
    names = sorted(name for name in if_absent((), node.list, CONFIGURATION_FOLDER) if name.endswith(".conf"))
    found: dict[str, str] = {}
    for file in (CONFIGURATION, *(f"{CONFIGURATION_FOLDER}/{name}" for name in names)):
        for line in if_absent("", node.text, file).splitlines():
            if assigned := _ASSIGNMENT.fullmatch(line):
                name, value = assigned[1], assigned[2].strip("\"'")
                found[name] = value
                if value and not _PATH.fullmatch(value):
                    ask = f"cat {quoted(f'/{file}')}"
                    raise EvidenceMissing(Missing(name, MissingReason.UNDECIDED, ask))
    return {name: _of_kernel(node, path) for name, path in found.items() if path}


def _of_kernel(node: Node, path: str) -> str:
    """The path for the running kernel: DKMS replaces $kernelver in it."""
    return path.replace("$kernelver", release(node)) if "$" in path else path
