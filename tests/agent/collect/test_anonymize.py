"""What replaces an identity, exactly; test_privacy and test_identities look for what is left of one."""

from __future__ import annotations

import pytest

from gdrkit.agent.collect.anonymize import Anonymizer

MAC = "ec:0d:9a:44:b2:c4"
HOST = ("host", "zgx-3285")


def anonymized(text: str, *names: tuple[str, str], keep: tuple[str, ...] = ()) -> str:
    return Anonymizer(names, keep).content(text.encode()).decode()


def test_each_network_has_its_own_also_after_the_255th():
    text = " ".join(f"192.{number >> 8}.{number & 255}.7" for number in range(600))
    assert anonymized(text).split() == [f"10.{n >> 8}.{n & 255}.1" for n in range(1, 601)]


@pytest.mark.parametrize("kind", ["binary", "without addresses"])
def test_in_binary_data_and_in_certificates_only_names_are_replaced(kind):
    data = b"\1\0" * (kind == "binary") + f"ZGX-3285 {MAC}".encode()
    found = Anonymizer([HOST]).content(data, addresses=kind == "binary")
    assert found == data.replace(b"ZGX-3285", b"host0001")


@pytest.mark.parametrize("data", ["a=zgx-3285\0b={}\0", "\xff zgx-3285 {}"])
def test_zeros_between_texts_and_letters_of_other_alphabets_are_not_binary_data(data):
    expected = data.format("02:00:00:00:00:01").replace("zgx-3285", "host0001")
    assert anonymized(data.format(MAC), HOST) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("root@hal:/ ROOT@HAL hal", "root@ho1:/ ROOT@ho1 hal"),
        ("root@node node", "root@hos1 node"),  # an ordinary word
        ("root@mlx5_0 mlx5_0", "root@host01 mlx5_0"),  # the name of a card, which is kept
        ("root@a.c", "root@ho1"),
        ("root@abc root@halo root@hal-2 @node-x", "root@abc root@halo root@hal-2 @node-x"),
        ("root@max root@lan", "root@max root@lan"),  # of a user and of a network
    ],
)
def test_a_host_named_like_a_word_is_replaced_after_an_at_and_nowhere_else(text, expected):
    hosts = [("host", name) for name in ("hal", "node", "mlx5_0", "a.c")]
    assert anonymized(text, *hosts, ("user", "max"), ("net", "lan"), keep=("mlx5_0", "a.c")) == expected


def test_without_such_a_host_nothing_changes_after_an_at():
    assert anonymized("root@hal a@ @", HOST, ("user", "max")) == "root@hal a@ @"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", [*"123456789", "1", "1", "1"]),
        ("a", [*(f"h{n}" for n in range(1, 10)), "10", "11", "12"]),
        ("ab", [*(f"ho{n}" for n in range(1, 10)), "h10", "h11", "h12"]),
        ("abcdefg", [*(f"host000{n}" for n in range(1, 10)), "host0010", "host0011", "host0012"]),
    ],
)
def test_a_replacement_has_the_length_of_the_name_and_ends_with_its_number(before, expected):
    anonymizer = Anonymizer()
    assert [anonymizer.hostname(before + chr(97 + number)) for number in range(12)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "mac 0xEC0D9A44B2C4 EC0D9A44B2C4 0Xec0d9a44b2c4",
            "mac 0x020000000001 020000000001 0X020000000001",
        ),
        ("0123456789ab 0x0123456789abcdef", "0123456789ab 0x0123456789abcdef"),  # not known
        ("guid=0x0123456789abcdef 0123456789ABCDEF", "guid=0x0200000000000001 0200000000000001"),
        ("BOOTIF=01-ec-0d-9a-44-b2-c4 ec0d9a44b2c4", "BOOTIF=01-02-00-00-00-00-01 020000000001"),
        ("version 192.168.77.12, then 192.168.77.12" + " " * 40, None),
        ("192.168.77.12" + " " * 40 + "version 1.2.3.4", None),
    ],
)
def test_addresses_in_every_notation(text, expected):
    changed = text if expected is None else expected
    if expected is None:
        at = text.rindex("192.168.77.12")
        changed = text[:at] + "10.0.1.1" + text[at + len("192.168.77.12") :]
    assert anonymized(text) == changed


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ab:c", "ab:c"),  # no digit, and of the characters beside the digits
        ("a/b.c", "a/b.c"),
        ("A0", "SERIAL0001"),
        ("A9", "SERIAL0001"),
        ("0", "0"),
        ("N/A", "N/A"),
        ("none1", "SERIAL0001"),
        (MAC, "02:00:00:00:00:01"),
    ],
)
def test_a_serial_number_has_a_digit_and_is_no_address(value, expected):
    assert anonymized(f"Serial Number: {value} x") == f"Serial Number: {expected} x"


def test_a_user_whose_name_is_no_utf_8_is_replaced_by_its_bytes():
    name = b"jos\xe9-admin".decode(errors="surrogateescape")
    made = Anonymizer([("user", name)])
    assert b"jos\xe9" not in made.content(b"started by jos\xe9-admin on tty1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0::/system.slice/acme-train.service", "0::/system.slice/unit0001.service"),
        ("12:cpu,io:/a.slice/b.scope/a.slice", "12:cpu,io:/unit0001.slice/unit0002.scope/unit0001.slice"),
        ('{"cgroup":"0::/acme\\\\x2d1.service\\n1:name=systemd:/acme\\\\x2d1.service\\n"}',
         '{"cgroup":"0::/unit0001.service\\n1:name=systemd:/unit0001.service\\n"}'),
        ("<td>unit acme-train.service</td>", "<td>unit unit0001.service</td>"),
    ],
)  # fmt: skip
def test_a_unit_that_a_user_named_is_replaced_in_a_cgroup_and_as_a_job(text, expected):
    assert anonymized(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0::/user.slice/user-1000.slice/user@1000.service/app.slice/session-c3.scope",
        f"0::/system.slice/docker-{'0a' * 32}.scope",
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user",
        "0::/kubepods.slice/kubepods-burstable.slice/x",
        "see /lib/systemd/system/acme-train.service",  # no cgroup: a path of the distribution
        "the unit acme-train",
    ],
)
def test_units_of_the_system_and_what_is_no_cgroup_stay(text):
    assert anonymized(text) == text
