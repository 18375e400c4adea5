"""Secrets in notations that strangers use, and texts made so that searching them takes long."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.kernel_arguments import arguments_in_file
from gdrkit.agent.collect.redact import without_secrets
from gdrkit.evidence import EvidenceMissing
from gdrkit.facts.kernel import boot_parameter
from gdrkit.facts.module_arguments import refusal
from gdrkit.node import Node
from tests.agent.collect import planted_secrets
from tests.agent.collect.planted_secrets import RANDOM, WORD
from tests.memory_host import MemoryHost
from tests.work import within

SECRET = "Zx9Qw3Lm7Kp2Vt5R"


@pytest.mark.parametrize(
    "text",
    [
        f"ya29.a0AfH6SMB{SECRET}",
        f"bearer {SECRET}",
        f"eyJhbGciOiJSUzI1NiJ9.{SECRET}",
        f"eyJhdXRocyI6eyJudmNyLmlvIjp7{SECRET}",
        f"docker login -u bob -p {SECRET} nvcr.io",
        f"helm registry login nvcr.io -p {SECRET}",
        f"mysql -uroot -p{SECRET} db",
        f"mysql -p{SECRET} -P 3306 db",
        f"mysqldump db | mysql -h mysql host -p {SECRET}",
        f"sshpass -p{SECRET} ssh node",
        f"iw key {SECRET}",
        f"ipmitool -H 192.0.2.1 -U ADMIN -P {SECRET} sol activate",
        f"ssh-keygen -t rsa -N {SECRET} -f x",
        f"wandb login {SECRET}",
        f"https://{SECRET}@github.com/org/repository",
        f"redis://:ab/{SECRET}@cache:6379",
        f"redis://user:p@{SECRET}@cache:6379",
        f"https://https://a:{SECRET}@host/",
        f"http://a:80/ http://b:{SECRET}@host/ http://c:{SECRET}@host/",
        f"echo printf {SECRET} | sudo -S true",
        f"https://hooks.slack.com/services/T00000000/B00000000/{SECRET}",
        f"https://discord.com/api/webhooks/1234567890/{SECRET}",
        f"https://account.blob.core.windows.net/c?sv=2020&sig={SECRET}%3D&se=1",
        f"    - name: WANDB_API_KEY\n      value: {SECRET}",
        f'{{"name":"NGC_API_KEY","value":"{SECRET}"}}',
        f'{{\\"name\\":\\"NGC_API_KEY\\",\\"value\\":\\"{SECRET}\\"}}',
        f"    client-key-data: {SECRET}==",
        f'"auth": "{SECRET}=="',
        f"NCCL INFO NCCL_NET_AUTH_TOKEN set by environment to {SECRET}",
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{SECRET}\n-----END PGP PRIVATE KEY BLOCK-----",
        f"AGE-SECRET-KEY-1{SECRET}{SECRET}",
        f'password="{SECRET}\nnext',
        f'password="ab\\"{SECRET}"',
        f'{{\\"password\\":\\"{SECRET}\\"}}',
        f"password=ab,{SECRET}",
        f"password=ab;{SECRET}",
        f'password "{SECRET}"',
        f"hvb.{SECRET}{SECRET}",
        f"sk_live_{SECRET}",
        f"SG.{SECRET}.{SECRET}",
        f"Cookie: session={SECRET}",
        f"curl -H 'X-Api-Key: {SECRET}'",
        f"machine host login bob password {SECRET}",
        f"quiet bindpw {SECRET}",
        f"Server=db;User Id=bob;Pwd={SECRET};",
        f"pkcs11:object=mok?pin-value={SECRET}",
    ],
)
def test_secrets_of_strangers_are_dropped(text):
    for line in (text, f"BOOT_IMAGE=/vmlinuz quiet {text}", f"[    1.0] Kernel command line: {text}"):
        assert SECRET not in without_secrets(line.encode()).decode()


@pytest.mark.parametrize("path, text", planted_secrets.rows(), ids=lambda value: value[:60])
def test_planted_secrets_are_dropped_from_every_kind_of_file(path, text):
    """With a random word and, where more than randomness betrays it, with a plain one."""
    words = (RANDOM,) if (path, text) in planted_secrets.PATHS else (RANDOM, WORD)
    for word in words:
        cleaned = without_secrets(text.format(word).encode() + b"\n", path).decode()
        assert word not in cleaned
        assert "(dropped)" in cleaned or cleaned == "#\n"


@pytest.mark.parametrize(
    "path, text",
    [
        (
            "proc/cmdline",
            "quiet iommu=pt pci=config_acs=101@0:1.0;1@0:2.0 modprobe.blacklist=a,b module.sig_enforce",
        ),
        (
            "proc/cmdline",
            'nvidia.NVreg_RegistryDwords="A=1;" module_blacklist=nouveau -- nvidia_drm.modeset=1',
        ),
        (
            "etc/default/grub",
            "GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX quiet pci='disable_acs_redir=A;B' splash;\"",
        ),
        ("boot/loader/entries/a.conf", "title Bob's Linux\noptions $kernelopts iommu.passthrough=1 # quiet"),
        (
            "etc/modprobe.d/a.conf",
            "install nvidia /bin/true && exit 1; test -e /x || modprobe --ignore-install a b=1",
        ),
        ("etc/modprobe.d/a.conf", "options nvidia NVreg_EnableGpuFirmware=0\nblacklist nouveau"),
        ("etc/rc.local", "#!/bin/sh\nmodprobe nvidia-peermem || exit 0\n"),
        ("dmesg", "[    2.0]     HOME is where\n[    2.0] nvidia: unknown parameter 'x' ignored"),
        ("dmesg", "https://docs.nvidia.com/networking/display/MLNXOFED/Installing-24.10 see /usr/share/doc"),
    ],
)
def test_what_rules_read_of_arguments_and_commands_is_kept(path, text):
    assert without_secrets(text.encode(), path).decode() == text


def test_a_removed_value_counts_as_not_collected():
    """It is neither the value of a parameter nor one that a module would refuse."""
    node = Node(MemoryHost({"proc/cmdline": "pci=(dropped) lockdown=integrity"}))
    assert boot_parameter(node, "lockdown") == ("integrity",)
    with pytest.raises(EvidenceMissing, match="pci= in proc/cmdline"):
        boot_parameter(node, "pci")
    assert refusal("int", "(dropped)") is None and refusal("int", "dropped")


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_PKEY=0",
        "UCX_IB_PKEY=0x7fff",
        "PWD=/home/alice",
        "commit 44fbecc1d28462aa0011223344556677889900aa",
        "GPU-2f8f1a2b-1111-2222-3333-444455556666",
        "NCCL INFO comm 0x7f1c2c00 rank 0 nranks 8 busId 1b000 commId 0x3f5c7b1e6a1fdb3a",
        "Loaded X.509 cert 'autogenerated kernel key: 1f2e3d4c5b6a79808f0e1d2c3b4a59687706f5e4'",
        "module verification failed: signature and/or required key missing",
        "NCCL INFO NCCL_IB_HCA set by environment to mlx5_0",
        "docker run -p 8080:80 image",
        "srun -p gpu -N 2 ib_write_bw -p 18515",
        "name: mlx5_0\nvalue: 8",
        "name: NCCL_IB_PKEY\nvalue: 1",
        "http://mirror:8080/path@2x",
        "bearer of bad news",
        "cookie: unknown operand",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_what_only_resembles_such_a_secret_is_kept(text):
    assert without_secrets(text.encode()).decode() == text


def test_the_other_options_of_a_mount_are_kept():
    assert without_secrets(b"-o password=abc,vers=3,secret=x,rw") == (
        b"-o password=(dropped),vers=3,secret=(dropped)"
    )


def test_an_address_at_the_end_of_a_sentence_is_replaced():
    assert b"fe80::1234:5678:9abc:def0" not in Anonymizer().content(b"from fe80::1234:5678:9abc:def0.\n")


_SECONDS = 20
_CLEAN = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({0}, {0}))
from gdrkit.agent.collect.anonymize import Anonymizer
from gdrkit.agent.collect.redact import without_secrets
Anonymizer([("host", "node17")]).content(without_secrets(sys.stdin.buffer.read()))
"""


@pytest.mark.parametrize(
    "text",
    [
        b"00:" * (1 << 16) + b"g",
        b"serial: " + b"00:" * (1 << 16) + b"-",
        b"\n" * (1 << 17),
        b"ip=" * (1 << 16),
        b'token="' * (1 << 16),
        b"eyJaaaaaaaaaa-" * (1 << 15),
        b"a:/a:@//a://a://" * (1 << 15),
        b"echo " * (1 << 17) + b"|",
    ],
    ids=["addresses", "serial number", "empty lines", "ip=", "quotes", "tokens", "urls", "commands"],
)
def test_no_text_takes_long_to_clean(text):
    """A local user may put such a file in a home that root collects from: 256 kB took hours."""
    child = [sys.executable, "-I", "-c", _CLEAN.format(_SECONDS)]

    assert subprocess.run(child, input=text, check=False, preexec_fn=_bounded).returncode == 0


def test_a_command_of_many_variables_takes_as_long_as_it_is():
    """1 MiB took a minute: what was kept was copied at each of them."""
    with within(30):
        cleaned = without_secrets(b"install x " + b"a=b " * (1 << 18), "etc/modprobe.d/x.conf")

    assert b"=b" not in cleaned


def _bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


WORDS = st.lists(
    st.sampled_from(
        ["iommu", "pci", "nvidia.x", "a", "x1", "=", "=", " ", "\t", "\n", "\r", "-", "\x1c", "é"]
    ),
    max_size=20,
)


@given(WORDS.map("".join), st.sampled_from(["proc/cmdline", "boot/loader/entries/x", "boot/grub/grubenv"]))
def test_plain_arguments_lose_the_values_that_they_lose_among_quotation_marks(text, path):
    """Words without any mark are read by one expression, others piece by piece."""
    marked = b'\n""'
    assert arguments_in_file(path, text.encode()) + marked == arguments_in_file(path, text.encode() + marked)
