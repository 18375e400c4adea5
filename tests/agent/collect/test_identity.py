"""What identifies this machine and its users, and whether this is a container."""

from __future__ import annotations

import os

import pytest

from gdrkit.agent.collect import identity


def peek(files: dict[str, str]):
    return lambda path: files.get(path, "").encode()


def test_the_release_is_the_running_kernels():
    assert identity.release(peek({"proc/sys/kernel/osrelease": "6.1.0-56\n"})) == "6.1.0-56"
    assert identity.release(peek({})) == os.uname().release


@pytest.mark.parametrize(
    ("kernel", "file", "name"),
    [
        ("one\n", "two\n", "one"),
        ("(none)\n", "two\n", "two"),
        ("", " two ", "two"),
        ("", "(none)", "node"),
        ("", "", "node"),
    ],
)
def test_the_hostname_is_that_of_the_kernel_or_else_of_the_file(kernel, file, name):
    assert identity.hostname(peek({"proc/sys/kernel/hostname": kernel, "etc/hostname": file})) == name


@pytest.mark.parametrize(
    ("files", "there", "scope"),
    [
        ({}, (), "host"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, ("etc",), "host"),
        ({}, (".dockerenv",), "container"),
        ({}, ("run/.containerenv",), "container"),
        ({}, ("run/systemd/container",), "container"),
        ({"proc/1/environ": "HOME=/\0container=podman\0"}, (), "container"),
        ({"proc/1/cgroup": "0::/kubepods/x\n"}, (), "container"),
        ({"proc/1/cgroup": "0::/machine.slice/machine-x\n"}, (), "container"),
    ],
)
def test_a_container_is_told_from_a_host(files, there, scope):
    assert identity.scope(peek(files), there.__contains__) == scope


def test_every_name_of_the_machine_its_networks_and_its_users():
    files = {
        "proc/sys/kernel/hostname": "node1.rack2.example.net",
        "etc/hosts": (
            "127.0.0.1 localhost localhost4\n::1 ip6-loopback\n10.0.0.1 login.example.org login # not this\n"
            "\n10.0.0.2\n"
        ),
        "etc/resolv.conf": (
            "# search not.this\nsearch a.example .\ndomain b.example.\nnameserver 10.0.0.3\n"
            "\noptions rotate\n"
        ),
        "etc/passwd": (
            "root:x:0:0:Root User:/root:/bin/sh\nlow:x:999:1:Lower Bound::\n"
            "first:x:1000:1:Ann Example,room 12345::\n"
            "last:x:59999:1:::\nhigh:x:60000:1:Upper Bound::\nshort:x:1001:1\nodd:x:12a:1:Odd Number::\n"
            "long:x:10000000000:1:Long Number::\nminus:x:-5:1:Minus Number::\n"
        ),
    }  # fmt: skip
    environment = {"USER": "me", "LOGNAME": "", "SUDO_USER": "caller", "HOME": "/home/not"}
    assert identity.names(peek(files), ["alice", ""], environment) == {
        ("host", "node1.rack2.example.net"), ("host", "node1"), ("net", "rack2.example.net"),
        ("host", "login.example.org"), ("host", "login"), ("net", "example.org"), ("net", "a.example"),
        ("net", "b.example"), ("user", "first"), ("user", "Example"), ("user", "12345"), ("user", "last"),
        ("user", "alice"), ("user", "me"), ("user", "caller"),
    }  # fmt: skip
    assert identity.names(peek({}), [], {}) == {("host", "node")}


def test_the_addresses_of_every_kind_of_card():
    folders = {
        "sys/class/net": ["eno1", "eno2"], "sys/class/infiniband": ["mlx5_0"],
        "sys/class/fc_host": ["host0"],
    }  # fmt: skip
    found = identity.addresses(lambda path: path.encode(), lambda folder: folders[folder])
    assert list(found) == [
        b"wwn sys/class/net/eno1/address", b"wwn sys/class/net/eno2/address",
        b"wwn sys/class/infiniband/mlx5_0/node_guid", b"wwn sys/class/fc_host/host0/port_name",
        b"wwn sys/class/fc_host/host0/node_name",
    ]  # fmt: skip
