"""dpkg's own files: installed packages, and the owner of a file."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdrkit.evidence import EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.evidence.live import LiveHost
from gdrkit.facts.dpkg import LISTS, STATUS, DpkgVersions, owner_by_lists, version, versions
from gdrkit.node import Node
from tests.memory_host import MemoryHost

RECORDS = b"""Package: libnccl2
Status: install ok installed
Architecture: amd64
Version: 2.27.3-1+cuda12.9
Description: Package: of no concern

Package: nvidia-peer-memory
Status: deinstall ok config-files
Version: 1.3-0

Package: kmod
Status: hold ok installed
Version: 30+20221128-1
"""


def node(**more: bytes) -> Node:
    return Node(MemoryHost({STATUS: RECORDS, **more}, complete=True))


def test_the_version_of_an_installed_package():
    assert version(node(), "libnccl2") == "2.27.3-1+cuda12.9"
    assert version(node(), "kmod") == "30+20221128-1"


@pytest.mark.parametrize("name", ["nvidia-peer-memory", "libnccl", "of no concern"])
def test_a_removed_package_and_an_unknown_one_are_absent(name):
    with pytest.raises(EvidenceAbsent):
        version(node(), name)


def test_all_package_names_are_listed():
    assert dict(versions(node())) == {"libnccl2": "2.27.3-1+cuda12.9", "kmod": "30+20221128-1"}


def test_a_missing_status_file_is_absent_only_where_it_was_looked_for():
    with pytest.raises(EvidenceAbsent):
        versions(Node(MemoryHost(complete=True)))
    with pytest.raises(EvidenceMissing) as caught:
        versions(Node(MemoryHost()))
    assert not isinstance(caught.value, EvidenceAbsent)


def test_an_error_text_is_not_a_list():
    with pytest.raises(EvidenceMissing) as caught:
        versions(Node(MemoryHost({STATUS: b"cat: permission denied\n"})))
    assert caught.value.missing.why is MissingReason.GARBLED


def test_the_owner_of_a_file_is_found_with_and_without_usr():
    lists = {
        f"{LISTS}/linux-modules-nvidia-570.list": b"/.\n/lib/modules/6.8/kernel/nvidia.ko\n",
        f"{LISTS}/libibverbs1:amd64.list": b"/usr/lib/x86_64-linux-gnu/libibverbs.so.1\n",
        f"{LISTS}/bash.list": b"/bin/bash\n",
    }
    here = Node(MemoryHost(lists))
    assert owner_by_lists(here, "usr/lib/modules/6.8/kernel/nvidia.ko") == "linux-modules-nvidia-570"
    assert owner_by_lists(here, "usr/lib/x86_64-linux-gnu/libibverbs.so.1") == "libibverbs1"
    with pytest.raises(EvidenceMissing) as caught:
        owner_by_lists(here, "lib/modules/6.8/updates/nvidia.ko")
    assert not isinstance(caught.value, EvidenceAbsent)
    assert f"{LISTS}/bash.list" not in here.host.opened


@given(st.binary())
def test_any_bytes_are_searched_without_an_error(data):
    found = DpkgVersions(b"\n" + data)
    assert len(dict(found)) == len(set(found))


@pytest.mark.parametrize("name", [b"libnccl\xe82", b"libnccl2\xed\xa0\x80", "libnccl\u00b2".encode()])
def test_a_name_that_no_package_has_makes_the_list_unreadable(name):
    """dpkg itself reads no such file. Once such a name ended gdr with a KeyError."""
    with pytest.raises(EvidenceMissing) as caught:
        versions(Node(MemoryHost({STATUS: RECORDS.replace(b"libnccl2", name)})))
    assert caught.value.missing.why is MissingReason.GARBLED
    described = RECORDS.replace(b"of no concern", "f\u00fcr alle".encode())
    assert dict(versions(Node(MemoryHost({STATUS: described})))) == dict(versions(node()))


def test_versions_equal_those_of_dpkg_query():
    """dpkg-query on this machine is the second source."""
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs dpkg-query: run the tests on Debian or Ubuntu")
    rows = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package}\t${Version}\t${db:Status-Abbrev}\n"],
        capture_output=True,
        check=True,
        text=True,
    )
    theirs = {
        name: found
        for name, found, state in (line.split("\t") for line in rows.stdout.splitlines())
        if state[1] == "i"
    }
    assert dict(versions(Node(LiveHost()))) == theirs
