"""A sosreport as Debian's package makes it, and the traps in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gdrkit.evidence import Command, EvidenceAbsent, EvidenceMissing, MissingReason
from gdrkit.evidence.live import LiveHost
from gdrkit.evidence.target import open_host

LSMOD = Command(("lsmod",), ("sos_commands/kernel/lsmod",))
DMESG = Command(("dmesg",), ("sos_commands/kernel/dmesg",))


@pytest.fixture
def host(sosreport):
    return open_host(sosreport)


def test_it_is_recognised(host):
    assert host.source == "sosreport"
    assert host.notes == ()


def test_what_it_holds_is_what_the_machine_says(host):
    live = LiveHost()

    assert host.read("proc/cmdline") == live.read("proc/cmdline")
    assert host.run(DMESG).startswith(live.run(DMESG)[:2000])


def test_every_member_is_what_tar_makes_of_it(sosreport, host, tmp_path):
    subprocess.run(["tar", "-C", tmp_path, "-xf", sosreport], check=True)
    (root,) = tmp_path.iterdir()
    compared = 0
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink() or not path.is_file():
            continue
        try:
            content = host.read(name)
        except EvidenceMissing:
            continue
        assert content == path.read_bytes(), name
        compared += 1
    assert compared > 100


def test_unpacked_it_says_the_same(sosreport, host, tmp_path):
    shutil.unpack_archive(sosreport, tmp_path)
    unpacked = open_host(str(tmp_path))

    assert unpacked.source == "sosreport"
    assert unpacked.list("") == host.list("")
    assert unpacked.read("proc/cmdline") == host.read("proc/cmdline")
    for command in (LSMOD, DMESG):
        assert _answer(unpacked, command) == _answer(host, command)


def test_a_complaint_stored_as_output_is_no_output(sosreport, host):
    """Where the kernel has no modules, lsmod fails, and sos keeps what it said as if it were its output."""
    if Path("/proc/modules").exists():
        assert host.run(LSMOD).startswith(b"Module")
        return
    assert b"ERROR" in host.read(LSMOD.files[0])
    with pytest.raises(EvidenceMissing) as error:
        host.run(LSMOD)

    assert not isinstance(error.value, EvidenceAbsent)
    assert "could not open /proc/modules" in error.value.missing.ask


def test_module_files_are_not_collected_though_their_index_may_be(host):
    release = LiveHost().read("proc/sys/kernel/osrelease").decode().strip()
    with pytest.raises(EvidenceMissing) as error:
        host.read(f"lib/modules/{release}/updates/dkms/nvidia.ko")

    assert error.value.missing.why is MissingReason.NOT_COLLECTED


def test_what_is_not_in_a_folder_copied_whole_was_not_there(host):
    if not Path("/etc/modprobe.d").is_dir():
        pytest.skip("no /etc/modprobe.d on this machine; mkdir /etc/modprobe.d to test it")
    assert not host.exists("etc/modprobe.d/no-such-file.conf")


def _answer(host, command: Command) -> bytes | str:
    try:
        return bytes(host.run(command))
    except EvidenceMissing as lacks:
        return lacks.missing.ask
