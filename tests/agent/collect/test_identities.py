"""Secrets and identities planted in every kind of text: none of them is in the bundle."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools.pages import words_of

from gdrkit.agent.collect.anonymize import Anonymizer, is_identifying
from gdrkit.agent.collect.identity import names
from gdrkit.agent.collect.ordinary_words import ORDINARY
from gdrkit.agent.collect.redact import without_secrets

SECRET = "Zq9-hunter2"
SECRETS = (
    "rootpw={}",
    "rd.rootpw='{}'",
    "rootpw --plaintext {}",
    "netroot=iscsi:bob:{}@10.1.2.3::3260::t",
    "netroot=iscsi:bob:{}:rev:{}@10.1.2.3::::t",
    "rd.iscsi.password={}",
    "curl -u bob:{} https://h/x",
    "curl --user='bob:{}' https://h/x",
    "wget --password {} x",
    "wget --http-password={} x",
    "sshpass -p {} ssh h",
    "https://bob:{}@h/x",
    "https://bob:a@{}@h/x",
    "Authorization: Digest {}",
    "Authorization: Basic {}aaaaaaaa",
    "wpa_passphrase={}",
    'psk="{}"',
    "wep_key0={}",
    "wifi_key: {}",
    "iwconfig wlan0 key s:{}",
    "nmcli dev wifi connect Home password {}",
    "grub.pbkdf2.sha512.10000.{}.00AA",
    "password_pbkdf2 root grub.pbkdf2.sha512.10000.AA.{}",
    "password root {}",
    "rootpw --iscrypted $6$salt${}aaaa",
    "root:$y$j9T$salt${}aaaa:19000",
    "cifs=//h/s,username=bob,password={}",
    "cifspass={}",
    "NGC_API_KEY={}",
    "AccountKey={}",
    "xoxb-{}aaaa",
    "sk-{}aaaaaaaaaaaaaaaa",
    "nvapi-{}aaaaaaaaaa",
)
IDENTITIES = {
    "BOOTIF=01-{}": "ec-0d-9a-44-b2-c4",
    "BOOTIF=01-{} ip=dhcp": "EC-0D-9A-44-B2-C4",
    "hwaddr={}": "ec0d9a44b2c4",
    "mac {}": "ec-0d-9a-44-b2-c4",
    "MAC address: {}": "ec0d9a44b2c4",
    "switch saw {}": "ec0d.9a44.b2c4",
    "ifname=eth0:{}": "ec:0d:9a:44:b2:c4",
    "ifname=eth0:{} ": "ec-0d-9a-44-b2-c4",
    "ip=10.1.2.3::10.1.2.1:255.255.255.0:x:eth0:off:1500:{}": "ec:0d:9a:44:b2:c4",
    "ip=10.9.8.7::10.9.8.1:255.255.255.0:{}:eth0:off": "gpu",
    "eth0: {}: link is up": "ec:0d:9a:44:b2:c4",
    "wwpn={}": "0x500507630300c562",
    "rd.zfcp=0.0.4000,{},0x0": "0x500507630300c562",
    "lpfc port {}": "50:05:07:63:03:00:c5:62",
    "root=/dev/disk/by-id/{}": "wwn-0x5000c500a1b2c3d4",
    "root=LABEL={}": "alice-disk",
    "InitiatorName={}": "iqn.2004-10.com.acme:01:beef",
    "nvme connect -n {}": "nqn.2014-08.com.acme:nvme:zeus",
    "ssid={}": "AcmeGuest",
    'wlan0: SSID "{}"': "Acme Guest",
    "nmcli dev wifi connect {}": "AcmeGuest",
    "ssh-ed25519 {}": "AAAAC3NzaC1lZDI1NTE5 alice@zeus",
    "ecdsa-sha2-nistp256 {}": "AAAAE2VjZHNhLXNoYTItbmlz",
    "ssh://{}@h/": "wilhelmina",
    "systemd.machine_id={}": "0123456789abcdef0123456789abcdef",
    "systemd[1]: Hostname set to <{}>.": "gpu",
    "systemd.hostname={}": "gpu",
    "ssh root@{}": "gpu",
    "nfsroot={}:/x": "192.168.77.12",
    "rd.luks.uuid=luks-{}": "5f2c3a1b-1111-2222-3333-444455556666",
}
PLACES = {
    "proc/cmdline": "quiet {} ro\n",
    "etc/default/grub": 'GRUB_CMDLINE_LINUX="quiet"\n# {}\n',
    "etc/default/grub.d/kdump.cfg": "{}\n",
    "etc/modprobe.d/site.conf": "# {}\noptions nvidia NVreg_X=1\n",
    "etc/nccl.conf": "NCCL_DEBUG=INFO\n# {}\n",
    "etc/environment": "NCCL_DEBUG=INFO\n# {}\n",
    "home/max/.nccl.conf": "# {}\nNCCL_DEBUG=INFO\n",
    "proc/driver/nvidia/params": "A: 1\n{}\n",
    "var/log/pods/x_nvidia-driver-daemonset-y/nvidia-peermem-ctr/0.log": "2026-11-20T16:00:00Z F {}\n",
}
"""Kinds of text of a machine; the kernel log is the output of a command, and planted in below."""
KINDS = sorted(PLACES)


@pytest.mark.parametrize("place", KINDS)
def test_no_secret_is_in_a_bundle(collected, root, place):
    (root.folder / place).unlink(missing_ok=True)
    root.file(place, PLACES[place].format("\n".join(form.format(SECRET, SECRET) for form in SECRETS)))
    bundle = collected()

    assert place in bundle.files
    assert SECRET.encode() not in bundle.everything()


@pytest.mark.parametrize("place", KINDS)
def test_no_identity_is_in_an_anonymized_bundle(collected, root, place):
    lines = "\n".join(form.format(value) for form, value in IDENTITIES.items())
    (root.folder / place).unlink(missing_ok=True)
    root.file(place, PLACES[place].format(lines))
    root.file("proc/sys/kernel/hostname", "gpu\n")
    bundle = collected("--anonymize")

    kept = b"\n".join(data.lower() for path, data in bundle.files.items() if fits(path, place))
    assert kept
    for form, value in IDENTITIES.items():
        found = re.search(rb"(?<![a-z0-9])" + re.escape(value.lower().encode()) + rb"(?![a-z0-9])", kept)
        assert not found, form
    assert b"gpu" not in kept
    assert "-gpu-" not in str(bundle.tops)


def fits(path, place):
    """Whether this is the path of a place, perhaps in the home of a user with another name."""
    return re.sub(r"home/[^/]+", "home/max", path) == place


BEFORE = st.sampled_from(
    ["", "quiet ", "[    1.000000] ", "Nov 20 16:00:00 gpu kernel: ", "# ", "export X=1; ", "\t", "a\nb\n"]
)
AFTER = st.sampled_from(["", " ro", "\n", "\r\n", " # x", "\n[    2.0] nvidia: loading\n"])


def planted(forms) -> st.SearchStrategy[list[tuple[str, str, str]]]:
    return st.lists(st.tuples(BEFORE, st.sampled_from(list(forms)), AFTER), min_size=1, max_size=6)


@given(planted(IDENTITIES))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_identity_is_found_wherever_it_is_planted(lines):
    """In kernel logs, on command lines and in shell files, alone or beside others."""
    text = "".join("\n" + before + form.format(IDENTITIES[form]) + after for before, form, after in lines)

    clean = Anonymizer([("host", "gpu")]).content(text.encode()).decode()

    for _, form, _ in lines:
        value = re.escape(IDENTITIES[form])
        assert not re.search(rf"(?<![A-Za-z0-9]){value}(?![A-Za-z0-9])", clean), (value, clean)


@given(st.sampled_from([*KINDS, "sos_commands/kernel/dmesg"]), planted(SECRETS))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_secret_is_found_wherever_it_is_planted(place, lines):
    text = "".join("\n" + before + form.format(SECRET, SECRET) + after for before, form, after in lines)

    assert SECRET.encode() not in without_secrets(text.encode(), place)


def test_a_known_address_is_replaced_without_separators_too(collected, root):
    root.file("sys/devices/virtual/net/enp1s0/address", "ec:0d:9a:44:b2:c4\n")
    root.link("sys/class/net/enp1s0", "../../devices/virtual/net/enp1s0")
    root.file("proc/driver/nvidia/registry", "# the one with ec0d9a44b2c4 on it, not 0123456789ab\n")

    text = collected("--anonymize").text("proc/driver/nvidia/registry")

    assert "ec0d9a44b2c4" not in text
    assert "0123456789ab" in text


# -- names that are words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "is_ordinary"),
    [
        ("options", True),  # a reader looks for it
        ("invoking", True),  # a message of the kernel has it
        ("localhost", True),
        ("mozart", False),
    ],
)
def test_a_word_that_readers_look_for_names_no_machine(word, is_ordinary):
    """A machine called `options` must keep its options."""
    assert (word in ORDINARY) is is_ordinary
    assert is_identifying(word) is not is_ordinary


def test_words_are_taken_from_texts_and_not_from_documentation():
    source = '"""A docstring."""\nPATH = "etc/Modprobe.d/x"\nFORM = b"signer"  # a comment\n'
    assert words_of(source) == {"modprobe", "signer"}


@pytest.mark.parametrize("name", ["node", "gpu", "options", "blacklist", "install", "firmware", "error"])
def test_a_host_whose_name_is_a_word_keeps_its_text_and_is_not_named(name):
    text = (
        f"options nvidia x=1\nblacklist nouveau\ninstall a /bin/true\nNVRM: {name} error, firmware on node\n"
    )
    log = (
        f"Nov 20 16:00:00 {name} kernel: NVRM: GPU at 0000:01:00.0\nsystemd[1]: Hostname set to <{name}>.\n"
    )
    anonymizer = Anonymizer([("host", name)])

    assert not is_identifying(name)
    assert anonymizer.content(text.encode()).decode() == text
    assert f" {name} " not in anonymizer.content(log.encode()).decode()
    assert f"<{name}>" not in anonymizer.content(log.encode()).decode()
    assert name.encode() not in anonymizer.content(f"root@{name}:/".encode())


@pytest.mark.parametrize("variable", ["USER", "LOGNAME", "SUDO_USER"])
def test_the_user_who_collects_is_named_by_the_environment(variable):
    """Also one whom /etc/passwd does not list, such as a user of LDAP who became root by sudo."""
    assert ("user", "wilhelmina") in names(lambda path: b"", [], {variable: "wilhelmina"})


@pytest.mark.parametrize("kind", "abprs")
def test_a_token_of_slack_is_dropped_wherever_it_stands(kind):
    token = f"xox{kind}-1234567890-abcdefghij".encode()
    for text in (b"%b", b"hook %b\n", b"curl -d %b https://h/x", b"options x y=%b"):
        assert token not in without_secrets(text % token)
