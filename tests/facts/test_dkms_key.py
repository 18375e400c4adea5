"""The key that DKMS signs with: where the distribution keeps it, or framework.conf says."""

from __future__ import annotations

import pytest

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing
from gdrkit.evidence.target import open_host
from gdrkit.facts.dkms_key import SigningKey, dkms_key, signers_certificate
from gdrkit.node import Node
from gdrkit.repair.platforms.action import EnrolKey, MakeKey, SignModules
from gdrkit.repair.platforms.choices import OWN_CERTIFICATE, ProcedureChoices
from gdrkit.repair.platforms.procedures import procedure_for
from gdrkit.repair.remedies import remedy_of
from tests.evidence_nodes import laid_down
from tests.memory_host import MemoryHost
from tests.module_builder import build_module, make_key, sign

UBUNTU = {"etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n'}
DEBIAN = {"etc/os-release": "ID=debian\nVERSION_ID=12\n"}
SHIM = {"var/lib/shim-signed/mok/MOK.der": "", "var/lib/shim-signed/mok/MOK.priv": ""}
PLAIN = {"var/lib/dkms/mok.pub": "", "var/lib/dkms/mok.key": ""}
CONFIGURED = {
    "etc/dkms/framework.conf": '# mok_certificate="/no"\n'
    'mok_signing_key="/etc/k/a.key"\nmok_certificate=/etc/k/a.der\n',
    "etc/k/a.der": "",
    "etc/k/a.key": "",
}
KERNEL = {"proc/sys/kernel/osrelease": "6.8.0-45-generic\n"}


def key(*files: dict[str, str], complete: bool = True) -> SigningKey:
    return dkms_key(Node(MemoryHost({k: v for part in files for k, v in part.items()}, complete=complete)))


def test_ubuntu_keeps_it_with_shim_and_others_with_dkms():
    assert key(UBUNTU, SHIM, PLAIN).certificate == "/var/lib/shim-signed/mok/MOK.der"
    assert key(DEBIAN, SHIM, PLAIN) == SigningKey("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")


def test_the_configuration_counts_before_the_places_of_the_distribution():
    assert key(UBUNTU, SHIM, CONFIGURED) == SigningKey("/etc/k/a.key", "/etc/k/a.der")


def test_a_later_file_counts_and_may_name_the_kernel():
    later = {"etc/dkms/framework.conf.d/z.conf": "mok_certificate='/etc/k/$kernelver.der'\n"}
    found = key(DEBIAN, CONFIGURED, later, KERNEL, {"etc/k/6.8.0-45-generic.der": ""})

    assert found == SigningKey("/etc/k/a.key", "/etc/k/6.8.0-45-generic.der")


@pytest.mark.parametrize("path", ["relative/a.der", "/a;reboot", "--timeout", "pkcs11:token=x"])
def test_what_is_no_plain_path_is_unknown_and_no_reason_for_the_default(path):
    with pytest.raises(EvidenceMissing, match="mok_signing_key") as caught:
        key(DEBIAN, PLAIN, {"etc/dkms/framework.conf": f"mok_signing_key={path}\n"})
    assert not isinstance(caught.value, EvidenceAbsent)


def test_a_certificate_alone_counts_on_debian_and_not_on_ubuntu():
    alone = {"etc/dkms/framework.conf": "mok_certificate=/etc/k/a.der\n", "etc/k/a.der": ""}

    assert key(DEBIAN, PLAIN, alone) == SigningKey("/var/lib/dkms/mok.key", "/etc/k/a.der")
    assert key(UBUNTU, SHIM, alone).certificate == "/var/lib/shim-signed/mok/MOK.der"


@pytest.mark.parametrize("lacks", list(SHIM))
def test_half_a_pair_is_none(lacks):
    with pytest.raises(EvidenceAbsent):
        key(UBUNTU, {path: "" for path in SHIM if path != lacks})


def test_what_was_not_collected_is_unknown():
    with pytest.raises(EvidenceMissing) as caught:
        key(UBUNTU, complete=False)
    assert not isinstance(caught.value, EvidenceAbsent)


def actions(node: Node, choices: ProcedureChoices = ProcedureChoices()):  # noqa: B008, it is frozen
    return procedure_for(node, remedy_of("sign-module"), choices).actions


def test_an_existing_key_is_enrolled_and_no_second_one_is_made():
    node = Node(open_host(str(laid_down("mixed-signers"))))
    pair = SigningKey("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
    found = actions(node.after("derived", [dkms_key.becomes(pair)]))
    (signing,) = (one for one in found if isinstance(one, SignModules))
    (enrolment,) = (one for one in found if isinstance(one, EnrolKey))

    assert not any(isinstance(one, MakeKey) for one in found)
    assert (signing.key, signing.certificate, enrolment.certificate) == (pair.key, *[pair.certificate] * 2)


def test_without_one_a_key_is_made_and_a_key_that_the_user_named_comes_first():
    node = Node(open_host(str(laid_down("mixed-signers"))))
    made = [one.certificate for one in actions(node) if isinstance(one, MakeKey)]
    pair = SigningKey("/var/lib/dkms/mok.key", "/var/lib/dkms/mok.pub")
    own = ProcedureChoices(key="/etc/keys/a.key", certificate="/etc/keys/a.der")
    named = actions(node.after("derived", [dkms_key.becomes(pair)]), own)

    assert made == [OWN_CERTIFICATE]
    assert {one.certificate for one in named if isinstance(one, EnrolKey)} == {"/etc/keys/a.der"}


@pytest.mark.parametrize("place", ["var/lib/shim-signed/mok/MOK.der", "var/lib/dkms/mok.pub"])
def test_the_certificate_on_the_disk_that_signed_a_module_is_the_one_to_enrol(place):
    """Its private key need not be seen; a certificate of another key is none of this module."""
    own, other = (make_key.__wrapped__("ws2 Secure Boot Module Signature key") for _ in range(2))
    module = sign(build_module("nvidia"), own)
    files = {"x/nvidia.ko": module, **UBUNTU}

    assert (
        signers_certificate(Node(MemoryHost(files | {place: own.certificate_der})), "x/nvidia.ko")
        == f"/{place}"
    )
    for content in (other.certificate_der, b"", b"-----BEGIN CERTIFICATE-----"):
        assert signers_certificate(Node(MemoryHost(files | {place: content})), "x/nvidia.ko") == ""
    bare = files | {place: own.certificate_der, "x/nvidia.ko": build_module("nvidia")}
    assert signers_certificate(Node(MemoryHost(bare)), "x/nvidia.ko") == ""
