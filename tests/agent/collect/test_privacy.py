"""What must never be in any bundle, and what must not be in an anonymized one."""

from __future__ import annotations

import re
import struct

import pytest

from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.redact import is_private, without_secrets
from gdrkit.formats import module_signature, x509
from tests.agent.collect import machine
from tests.agent.collect.machine import BRIDGES, GPU, MODULES, NIC


@pytest.mark.parametrize("arguments", [(), ("--anonymize",)])
def test_no_secret_leaves_the_machine(collected, arguments):
    everything = collected(*arguments).everything()

    for secret in machine.SECRETS:
        assert secret.encode() not in everything


def test_a_private_key_is_not_opened(collected):
    entry = collected().manifest["files"]["etc/dkms/mok.key"]

    assert entry == {"status": "denied", "why": "a private key: never opened"}


def test_the_name_of_a_secret_is_kept(collected):
    bundle = collected()

    assert "NGC_API_KEY=(dropped)" not in bundle.text("etc/nccl.conf")  # no library reads that variable
    assert bundle.text("etc/nccl.conf").startswith("NCCL_IB_HCA=mlx5_0\n")
    assert bundle.text("proc/cmdline").endswith("rd.password=(dropped)\n")
    assert bundle.text("usr/sbin/rdma_topo") == ""


def test_an_anonymized_bundle_does_not_identify_the_machine(collected):
    bundle = collected("--anonymize")
    everything = bundle.everything().lower()

    for telling in machine.TELLING:
        assert telling.encode().lower() not in everything, telling
    assert bundle.manifest["anonymized"] is True


def test_equal_guids_stay_equal_and_keep_their_format(collected):
    bundle = collected("--anonymize")
    device = f"{BRIDGES}/{NIC}/infiniband/mlx5_0"
    guid = bundle.text(f"{device}/node_guid").strip()

    assert bundle.text(f"{device}/sys_image_guid").strip() == guid
    assert re.fullmatch(r"([0-9a-f]{4}:){3}[0-9a-f]{4}", guid)
    assert bundle.text(f"{device}/ports/1/gids/0").strip() == "fe80:0000:0000:0000:" + guid


def test_a_mapped_gid_gets_the_same_address_as_in_text(collected):
    bundle = collected("--anonymize")
    gid = bundle.text(f"{BRIDGES}/{NIC}/infiniband/mlx5_0/ports/1/gids/1").strip()
    address = re.search(r"X: (10[.\d]+)\n", bundle.text(f"proc/driver/nvidia/gpus/{GPU}/information"))

    assert address
    octets = [int(part) for part in address[1].split(".")]
    assert gid == "0000:0000:0000:0000:0000:ffff:{:02x}{:02x}:{:02x}{:02x}".format(*octets)


def test_the_serial_number_in_configuration_space_gets_the_same_guid(collected):
    bundle = collected("--anonymize")
    lower, upper = struct.unpack_from("<II", bundle.files[f"{BRIDGES}/{NIC}/config"], 0x144)
    guid = bundle.text(f"{BRIDGES}/{NIC}/infiniband/mlx5_0/node_guid").strip().replace(":", "")

    assert f"{upper:08x}{lower:08x}" == guid


def test_a_certificate_still_matches_its_signatures(collected):
    """The name is replaced in both by one of the same length, so the DER stays valid."""
    bundle = collected("--anonymize")
    path = f"{MODULES}/updates/dkms/nvidia.ko"
    length, trailer = module_signature.split(bundle.files[path])
    assert trailer is not None
    signature = module_signature.parse(bundle.files[path][length:-40])
    (variable,) = (data for name, data in bundle.files.items() if "MokListRT" in name)
    certificate = x509.parse(variable[4 + 28 + 16 :])
    digests = bundle.manifest["files"][path]["digests"]

    assert certificate.subject == signature.issuer
    assert machine.HOSTNAME not in certificate.subject
    assert "Secure Boot Module Signature key" in certificate.subject
    assert module_signature.verify(signature, lambda name: bytes.fromhex(digests[name]), certificate)


def test_pci_addresses_modules_and_versions_are_kept(collected):
    bundle = collected("--anonymize")

    assert f"{BRIDGES}/{GPU}/config" in bundle.files
    assert "580.95.05" in bundle.text("proc/driver/nvidia/version")
    assert "NVIDIA H100" in bundle.text(f"proc/driver/nvidia/gpus/{GPU}/information")
    assert bundle.manifest["kernel"] == machine.RELEASE


def test_paths_and_links_are_replaced_together(collected):
    """A link through a user's folder leads to the renamed file."""
    bundle = collected("--anonymize")
    target = bundle.links["etc/modprobe.d/blacklist.conf"]
    moved = "etc/" + target.removeprefix("../")

    assert bundle.text(moved) == "blacklist nouveau\n"
    assert bundle.manifest["files"][moved]["status"] == "found"


# -- text by text ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "DB_PASSWORD: 'hunter2'",
        "export AWS_SECRET_ACCESS_KEY=hunter2",
        "wpa psk=hunter2",
        "NGC_API_KEY=hunter2",
        "MY_KEY=hunter2",
        '"token": "hunter2"',
        "http://alice:hunter2@proxy:3128",
        "Authorization: Bearer hunter2hunter2",
        "UCX_AUTH=Basic hunter2hunter2==",
        "# dckr_pat_hunter2hunter2hunter2hunter2",
        "nvme nvme0: invalid dhchap secret DHHC-1:00:hunter2hunter2hunter2:",
        f"# K10{'0a' * 32}::server:hunter2",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2 and then the file ends",
    ],
)
def test_secrets_are_dropped(text):
    cleaned = without_secrets(text.encode())

    assert b"hunter2" not in cleaned
    assert b"(dropped)" in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "[    1.0] Loaded X.509 cert 'Build time autogenerated kernel key: 1234abcd5678'",
        'CONFIG_MODULE_SIG_KEY="certs/signing_key.pem"',
        "CONFIG_SYSTEM_TRUSTED_KEYRING=y",
        "modprobe: ERROR: could not insert 'nvidia_peermem': Key was rejected by service",
        'options nvidia NVreg_RegistryDwords="PeerMappingOverride=1;"',
        "Key Usage: Digital Signature",
        "nvme nvme0: DHHC-1 is not supported",
        "mlx5_core: firmware K10 of pypi-mirror",
    ],
)
def test_text_that_only_looks_like_a_secret_is_kept(text):
    assert without_secrets(text.encode()) == text.encode()


def test_names_of_private_keys():
    assert is_private("etc/dkms/mok.key")
    assert is_private("var/lib/shim-signed/mok/MOK.priv")
    assert is_private("root/.ssh/id_ed25519")
    assert not is_private("var/lib/shim-signed/mok/MOK.der")
    assert not is_private("sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23")
    assert not is_private("etc/dkms/framework.conf")


def anonymized(text: str, **names: str) -> str:
    anonymizer = Anonymizer(names.items())
    return anonymizer.content(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "MLNX_OFED_LINUX-5.4-3.1.0.0:",
        "NVRM version 580.95.05, firmware 28.39.1002, bios 96.00.74.00.01, version 3.10.0.1",
        "0000:1b:00.0 3D controller [0302]: NVIDIA [10de:2330]",
        "[    0.1] [mem 0x0000000000100000-0x00000000bfffffff] usable",
        "127.0.0.1 255.255.255.0 0.0.0.0 :: ::1",
        "SHA1 Fingerprint: 76:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0",
        "Serial Number : N/A",
        "std::string 12:34:56",
    ],
)
def test_text_that_is_not_an_address_is_kept(text):
    assert anonymized(text) == text


def test_a_value_has_the_same_replacement_in_all_formats():
    text = anonymized(
        "ec0d:9a03:0044:b2c4 ec-0d-9a-03-00-44-b2-c4 fe80::ec0d:9a03:44:b2c4 ibxec0d9a030044b2c4"
    )
    guid = text.split()[0].replace(":", "")

    assert text.split()[1].replace("-", "") == guid
    assert text.split()[3] == "ibx" + guid
    assert text.split()[2].startswith("fe80::200")


def test_addresses_of_one_network_stay_in_one_network():
    first, second, other, whole = anonymized("192.168.1.7 192.168.1.8 192.168.2.7 192.168.1.0").split()

    assert first.rpartition(".")[0] == second.rpartition(".")[0] == whole.rpartition(".")[0]
    assert other.rpartition(".")[0] != first.rpartition(".")[0]
    assert whole.endswith(".0")


def test_a_name_that_is_an_ordinary_word_is_kept_in_text():
    """For a machine called `nvidia`, lines about the driver must not change."""
    assert anonymized("nvidia: loading out-of-tree module", host="nvidia", user="max") == (
        "nvidia: loading out-of-tree module"
    )


def test_an_ordinary_word_is_replaced_where_it_is_known_to_be_a_hostname():
    anonymizer = Anonymizer([("host", "vm")])

    assert anonymizer.content(b"vm\n", path="proc/sys/kernel/hostname") == b"h1\n"
    assert anonymizer.content(b"Linux vm 6.1.0 #1 SMP", path="sos_commands/kernel/uname_-a") == (
        b"Linux h1 6.1.0 #1 SMP"
    )
    assert anonymizer.content(b"systemd[1]: Hostname set to <vm>.") == b"systemd[1]: Hostname set to <h1>."


def test_short_user_names_are_replaced_where_they_are_known_to_be_names():
    text = anonymized("/home/max/venv user=max max_link_speed max 512", user="max")

    assert "/home/max" not in text
    assert "user=max" not in text
    assert "max_link_speed max 512" in text


def test_names_keep_their_length():
    assert len(anonymized("zgx-3285", host="zgx-3285")) == 8
    assert anonymized("ZGX-3285.lan", host="zgx-3285") != "ZGX-3285.lan"


def test_processes_and_serial_numbers_of_nvidia_smi_are_replaced():
    text = anonymized(
        "    Product Name                          : NVIDIA H100\n"
        "    Serial Number                         : 1653021\n"
        "            Name                          : /usr/bin/python\n"
        "    GPU PDI                               : 0x4a5b\n"
    )

    assert "NVIDIA H100" in text
    assert "1653021" not in text
    assert "python" not in text
    assert "0x4a5b" not in text


def test_a_module_whose_name_looks_like_a_secret_keeps_its_dependencies():
    from gdrkit.agent.collect.bundle import _TABLE

    assert _TABLE.search("lib/modules/6.1.0-56-amd64/modules.dep")
    assert _TABLE.search("usr/lib/modules/6.1.0-56-amd64/modules.symbols")
    assert not _TABLE.search("lib/modules/6.1.0-56-amd64/build/private.key")
    assert not _TABLE.search("etc/modprobe.d/modules.conf")
