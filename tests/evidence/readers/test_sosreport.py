"""Reading a real sosreport, as Debian's package writes it."""

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


def test_its_content_equals_that_of_the_machine(host):
    live = LiveHost()

    assert host.read("proc/cmdline") == live.read("proc/cmdline")
    assert host.run(DMESG).startswith(live.run(DMESG)[:2000])


def test_every_member_equals_what_tar_unpacks(sosreport, host, tmp_path):
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


def test_an_unpacked_sosreport_gives_the_same_answers(sosreport, host, tmp_path):
    shutil.unpack_archive(sosreport, tmp_path)
    unpacked = open_host(str(tmp_path))

    assert unpacked.source == "sosreport"
    assert unpacked.list("") == host.list("")
    assert unpacked.read("proc/cmdline") == host.read("proc/cmdline")
    for command in (LSMOD, DMESG):
        assert _answer(unpacked, command) == _answer(host, command)


def test_an_error_message_stored_as_output_is_not_an_output(sosreport, host):
    """On a kernel without modules lsmod fails, and sos stores its error message as the output."""
    if Path("/proc/modules").exists():
        assert host.run(LSMOD).startswith(b"Module")
        return
    assert b"ERROR" in host.read(LSMOD.files[0])
    with pytest.raises(EvidenceMissing) as error:
        host.run(LSMOD)

    assert not isinstance(error.value, EvidenceAbsent)
    assert "could not open /proc/modules" in error.value.missing.ask


def test_module_files_are_not_collected_even_if_their_index_is(host):
    release = LiveHost().read("proc/sys/kernel/osrelease").decode().strip()
    with pytest.raises(EvidenceMissing) as error:
        host.read(f"lib/modules/{release}/updates/dkms/nvidia.ko")

    assert error.value.missing.why is MissingReason.NOT_COLLECTED


def test_a_file_that_is_not_in_a_completely_copied_folder_is_absent(host):
    if not Path("/etc/modprobe.d").is_dir():
        pytest.skip("no /etc/modprobe.d on this machine; mkdir /etc/modprobe.d to test it")
    assert not host.exists("etc/modprobe.d/no-such-file.conf")


def _answer(host, command: Command) -> bytes | str:
    try:
        return bytes(host.run(command))
    except EvidenceMissing as error:
        return error.missing.ask
